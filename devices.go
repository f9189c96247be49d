package rt

import (
	"slices"
	"strconv"
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

// Wire knows which interfaces of a list carry traffic that no other interface of the list counts again. A byte on the
// wire is counted at the port, at the bond over it, and at the VLAN or bridge over the bond.
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

// DiskReading holds the counters of one block device.
type DiskReading struct {
	Name string // kernel name
	Leaf bool   // false for dm, md, loop, zram: their I/O is already counted below them

	ReadBytes, WriteBytes Opt[uint64] // /proc/diskstats sectors x 512, since boot

	// Identity, /sys/block/<name>/.
	Model, Vendor, Serial string      // empty when not reported
	Type                  string      // "nvme", "ssd", "hdd"; empty when unknown
	Capacity              Opt[uint64] // bytes, size x 512
}

// MountReading holds the space of one mounted file system, statvfs(3).
type MountReading struct {
	Disk       string // kernel name of the block device; empty when there is none
	MountPoint string
	FSType     string
	// Bytes: f_blocks, f_bavail (to an unprivileged user) and f_blocks - f_bfree, times the fragment size.
	Total, Available, Used uint64
}

// CountGPUs is the number of GPUs in a list of a scheduler: "0,2-3", "GPU-...,MIG-...".
func CountGPUs(list string) (n uint64) {
	if list == "" {
		return 0
	}
	for word := range strings.SplitSeq(list, ",") {
		n++
		first, last, isRange := strings.Cut(word, "-")
		from, err1 := strconv.ParseUint(first, 10, 12)
		to, err2 := strconv.ParseUint(last, 10, 12)
		isNumbers := isRange && err1 == nil && err2 == nil
		if isNumbers && to > from {
			n += to - from
		}
	}
	return n
}

// GPUUse is the use of several GPUs together.
type GPUUse struct {
	Usage    Opt[float64] // fractional GPUs in use
	VRAMUsed Opt[uint64]  // bytes
	Utilized Opt[uint64]  // how many were not idle
}

// Valid reports whether any of its values was read.
func (u *GPUUse) Valid() bool { return u.Usage.Valid() || u.VRAMUsed.Valid() || u.Utilized.Valid() }

// Keys of GPUReading.Detail.
const (
	// BusyOf is what the utilization is of: BusyOfInterval, or one short sample of the driver without it.
	BusyOf         = "busy_of"
	BusyOfInterval = "interval" // the mean since the previous reading
)

// GPUReading holds what a driver reported about one GPU or MIG instance.
type GPUReading struct {
	UUID string // vendor UUID; the PCI address for AMD
	Name string // product name
	Type string // "GPU", "NPU", "TPU"
	Host string // identifier on this host

	Utilization         Opt[float64] // percent of time busy, 0..100; see BusyOf
	VRAMTotal, VRAMUsed Opt[uint64]  // bytes
	Temperature         Opt[uint64]  // degrees Celsius
	Power               Opt[float64] // watts
	Frequency           Opt[uint64]  // MHz
	Cores               Opt[uint64]
	InJob               Opt[bool]         // allocated to the job; absent if that is not known
	Detail              map[string]string // vendor extras: driver version, PCI bus id
}

// GPUProcessReading holds what a driver reported about one process on one GPU.
type GPUProcessReading struct {
	UUID string // of the GPU or MIG instance, as in GPUReading
	PID  uint64

	VRAMUsed    Opt[uint64]  // bytes; 0 after its end
	Utilization Opt[float64] // percent of time that its kernels ran, 0..100
	VRAMPeak    Opt[uint64]  // bytes: the highest of its life; absent unless the driver accounts for processes
}

// EnergyReading holds what one domain of the node or of a device measured.
type EnergyReading struct {
	Source string      // "powercap", "hwmon", "ipmi", "pm_counters", "gpu"
	Domain string      // its name in the source: "package-0", "dram", a GPU's UUID
	Kind   EnergyKind  // what it measures
	Socket Opt[uint64] // the CPU package; absent if it belongs to none

	Energy Opt[uint64]  // microjoules since the tracker's first reading: it neither wraps nor falls
	Power  Opt[float64] // watts, if the domain reports power and not energy
}

// EnergyKind is what a domain measures.
type EnergyKind string

// The kinds of domains. Package includes core and uncore; on servers it does not include
// DRAM. Node includes everything behind the power supply.
const (
	EnergyPackage  EnergyKind = "package"
	EnergyCore     EnergyKind = "core"
	EnergyUncore   EnergyKind = "uncore"
	EnergyDRAM     EnergyKind = "dram"
	EnergyPlatform EnergyKind = "psys"
	EnergyNode     EnergyKind = "node"
	EnergyGPU      EnergyKind = "gpu"
)

// UsedSince returns the energy of the domain since prev, in microjoules; absent if prev
// lacks it. at is the position of e in its snapshot.
func (e *EnergyReading) UsedSince(prev *Snapshot, at int) Opt[uint64] {
	before := Find(prev.Energy, at, func(o *EnergyReading) bool {
		return o.Source == e.Source && o.Domain == e.Domain && o.Kind == e.Kind
	})
	if before == nil {
		return None[uint64]()
	}
	return Delta(before.Energy, e.Energy)
}

// PerfReading holds one counter of one CPU, perf_event_open(2). A counter of the group "core" counts the job's
// cgroup, any other counts everything that ran on the node.
type PerfReading struct {
	Group  string // "core", "node", "rapl", "msr": counted together
	Socket uint64
	CPU    uint64
	Event  string // as configured, "instructions"

	Value       Opt[uint64] // as counted, not scaled
	TimeEnabled Opt[uint64] // nanoseconds
	TimeRunning Opt[uint64] // nanoseconds; less than TimeEnabled if counters were shared
}

// ForeignReport is a report of another program about the node or the job: a PowerAPI report, a GemPBA frame. It is
// stored unchanged.
type ForeignReport struct {
	Time   int64  // of receipt, nanoseconds since the epoch
	Source string // "powerapi", "gempba"
	Body   []byte // one JSON document
}

func deriveNetwork(prev, cur *Snapshot, secs float64) []NetMetrics {
	out := make([]NetMetrics, len(cur.Nets))
	for i := range cur.Nets {
		c := &cur.Nets[i]
		p := c
		if prev != nil {
			p = Find(prev.Nets, i, func(n *NetReading) bool { return n.Name == c.Name })
		}
		out[i] = NetMetrics{
			Interface: c.Name, MACAddress: text(c.MAC), Driver: text(c.Driver), OperState: text(c.OperState),
			SpeedMbps: c.SpeedMbps, MTU: c.MTU, RxBytesTotal: c.RxBytes, TxBytesTotal: c.TxBytes,
		}
		if p != nil {
			out[i].RxBytesPerSec = rate(p.RxBytes, c.RxBytes, secs)
			out[i].TxBytesPerSec = rate(p.TxBytes, c.TxBytes, secs)
		}
	}
	return out
}

func deriveDisk(prev, cur *Snapshot, secs float64) []DiskMetrics {
	out := make([]DiskMetrics, len(cur.Disks))
	for i := range cur.Disks {
		c := &cur.Disks[i]
		p := c
		if prev != nil {
			p = Find(prev.Disks, i, func(d *DiskReading) bool { return d.Name == c.Name })
		}
		out[i] = DiskMetrics{
			Device: c.Name, Model: text(c.Model), Vendor: text(c.Vendor), Serial: text(c.Serial),
			DeviceType: text(c.Type), CapacityBytes: c.Capacity, Mounts: mountsOf(cur, c.Name),
			ReadBytesTotal: c.ReadBytes, WriteBytesTotal: c.WriteBytes,
		}
		if p != nil {
			out[i].ReadBytesPerSec = rate(p.ReadBytes, c.ReadBytes, secs)
			out[i].WriteBytesPerSec = rate(p.WriteBytes, c.WriteBytes, secs)
		}
	}
	return out
}

func mountsOf(cur *Snapshot, disk string) []MountMetrics {
	out := []MountMetrics{}
	for i := range cur.Mounts {
		m := &cur.Mounts[i]
		if m.Disk != disk {
			continue
		}
		mm := MountMetrics{
			MountPoint: m.MountPoint, Filesystem: m.FSType,
			TotalBytes: m.Total, AvailableBytes: m.Available, UsedBytes: m.Used,
		}
		if m.Total > 0 {
			mm.UsedPct = float64(m.Used) / float64(m.Total) * 100
		}
		out = append(out, mm)
	}
	return out
}

func deriveGPU(cur *Snapshot) []GPUMetrics {
	out := make([]GPUMetrics, len(cur.GPUs))
	for i := range cur.GPUs {
		g := &cur.GPUs[i]
		out[i] = GPUMetrics{
			UUID: g.UUID, Name: g.Name, DeviceType: g.Type, HostID: g.Host, Detail: g.Detail,
			UtilizationPct: g.Utilization, VRAMTotalBytes: g.VRAMTotal, VRAMUsedBytes: g.VRAMUsed,
			VRAMUsedPct: percent(g.VRAMUsed, g.VRAMTotal), Temperature: g.Temperature,
			PowerWatts: g.Power, FrequencyMHz: g.Frequency, CoreCount: g.Cores,
		}
		if g.Detail == nil {
			out[i].Detail = map[string]string{} // an object in JSON
		}
	}
	return out
}

// Find returns the same device in the other snapshot, nil if there is none. It looks at
// index hint first.
func Find[T any](s []T, hint int, same func(*T) bool) *T {
	if hint < len(s) && same(&s[hint]) {
		return &s[hint]
	}
	for i := range s {
		if same(&s[i]) {
			return &s[i]
		}
	}
	return nil
}
