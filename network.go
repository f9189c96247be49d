package rt

import (
	"slices"
	"strings"
)

// NetReading holds the counters of one interface.
type NetReading struct {
	Name string // kernel name

	RxBytes, TxBytes Opt[uint64] // /proc/net/dev, since boot or since it came up

	// Identity and link state, /sys/class/net/<name>/.
	MAC, Driver, OperState string      // empty when not reported
	SpeedMbps              Opt[int64]  // Mbit/s; -1 when the link does not report it
	MTU                    Opt[uint64] // bytes
}

// Wire knows which interfaces of a list carry traffic that no other interface of the list counts
// again. A byte that crosses the wire once is counted at the port, at the bond over it, and at the
// VLAN or bridge over the bond.
type Wire struct {
	nets       []NetReading
	hasDevices bool // one has the driver of a device: those without one are virtual
	hasPlain   bool // one has no name of a virtual interface
}

// NewWire returns what is known of a list. It does not copy the list and allocates nothing.
func NewWire(nets []NetReading) Wire {
	w := Wire{nets: nets}
	for i := range nets {
		w.hasDevices = w.hasDevices || nets[i].Driver != ""
		w.hasPlain = w.hasPlain || !w.isVirtualByName(nets[i].Name)
	}
	return w
}

// Has reports whether the traffic of interface i is in the sums over the wire. In a container no
// interface may have a device; then names decide.
func (w Wire) Has(i int) bool {
	n := &w.nets[i]
	if w.hasDevices {
		return n.Driver != "" && !w.isOverFunction(n)
	}
	return !w.hasPlain || !w.isVirtualByName(n.Name)
}

// isOverFunction reports whether the interface is Hyper-V's, whose traffic goes through a virtual
// function of a network card. The function is an interface with the same address.
func (w Wire) isOverFunction(n *NetReading) bool {
	const hyperV = "hv_netvsc"
	return n.Driver == hyperV && slices.ContainsFunc(w.nets, func(o NetReading) bool {
		return o.MAC == n.MAC && o.Driver != "" && o.Driver != hyperV
	})
}

// virtualNames are how names of virtual interfaces begin.
var virtualNames = [...]string{
	"bond", "br", "cali", "cni", "docker", "dummy", "flannel", "ifb", "ipvl", "lxc", "lxdbr", "macv", "podman",
	"tap", "team", "tun", "veth", "virbr", "vlan", "vnet", "vxlan", "wg",
}

// isVirtualByName guesses by the name. A name with a dot is a VLAN if the part before the dot is in
// the list.
func (w Wire) isVirtualByName(name string) bool {
	for _, prefix := range virtualNames {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	below, _, isVLAN := strings.Cut(name, ".")
	return isVLAN && slices.ContainsFunc(w.nets, func(o NetReading) bool { return o.Name == below })
}

// FabricReading holds the counters of one port of a high-speed network. They count the
// traffic of the node, not of the job.
type FabricReading struct {
	Device string // kernel name, "mlx5_0"
	Port   uint64
	Link   string // link_layer: "InfiniBand", "Ethernet"; "Omni-Path" for hfi1
	State  string // "ACTIVE", "DOWN", ...; empty when not reported

	RateMbps             Opt[uint64] // signalling rate in Mbit/s
	RxBytes, TxBytes     Opt[uint64] // port_rcv_data, port_xmit_data times 4; or hw_counters/rx_bytes, tx_bytes
	RxPackets, TxPackets Opt[uint64] // port_rcv_packets, port_xmit_packets; or hw_counters/rx_pkts, tx_pkts
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
