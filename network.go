package rt

// NetReading holds the counters of one interface.
type NetReading struct {
	Name string // kernel name

	RxBytes, TxBytes Opt[uint64] // /proc/net/dev, since boot or since it came up

	// Identity and link state, /sys/class/net/<name>/.
	MAC, Driver, OperState string      // empty when not reported
	SpeedMbps              Opt[int64]  // Mbit/s; -1 when the link does not report it
	MTU                    Opt[uint64] // bytes
}

// FabricReading holds the counters of one port of a high-speed network. They count the
// traffic of the node, not of the job.
type FabricReading struct {
	Device string // kernel name, "mlx5_0"
	Port   uint64
	Link   string // link_layer: "InfiniBand", "Ethernet"; "Omni-Path" for hfi1
	State  string // "ACTIVE", "DOWN", ...; empty when not reported

	RateMbps             Opt[uint64] // signalling rate in Mbit/s
	RxBytes, TxBytes     Opt[uint64] // port_rcv_data, port_xmit_data times 4
	RxPackets, TxPackets Opt[uint64] // port_rcv_packets, port_xmit_packets
}

// RemoteFSReading holds the client's counters of one mounted network file system. They count
// the traffic of the node, not of the job.
type RemoteFSReading struct {
	Kind       string // "lustre", "nfs"
	Source     string // the Lustre file system's name; server:/export
	MountPoint string // empty if unknown

	ReadBytes, WriteBytes Opt[uint64] // Lustre: llite stats; NFS: server bytes of mountstats
	Ops                   Opt[uint64] // Lustre: open, close, getattr, ...; NFS: requests of all kinds
}
