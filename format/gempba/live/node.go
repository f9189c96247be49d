package live

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/gempba"
)

// NodeOptions select what a Node reads.
type NodeOptions struct {
	Hostname      string
	Procfs, Sysfs string
	Groups        Groups
	// Memory returns the use and the limit of the workers' own cgroup in bytes. Nil for none.
	Memory func() (used, limit rt.Opt[uint64])
	// Conns appends the node's TCP connections, for the edges of the workers, as ConnReader.Read does. Nil for none.
	Conns func([]Conn) ([]Conn, error)
	// Peers adds the workers' connections to other nodes to the lines, for a Joint.
	Peers bool
	// Warn gets the first error of each kind.
	Warn func(error)
}

// Node is the source of this node: its workers and itself, from /proc and /sys.
type Node struct {
	NodeOptions
	warn func(kind string, err error)

	workers  []*worker
	byKey    map[string]*worker
	nextID   uint32
	sentinel rt.Opt[uint32] // as a client chose

	packages  []host.Package      // nil if they cannot be read
	packageOf map[int]int         // index in packages, by CPU
	place     gempba.TopologyNode // the part that stays the same
	sources   []collect.Source
	snap      rt.Snapshot
	before    []rt.CPUReading
	busy      []rt.Opt[float64] // percent, of each socket
	lastCPU   time.Time
	packets   *proc.Packets
	traffic   *traffic // nil if the connections are not known
}

// NewNode returns a source that has read only the machine.
func NewNode(o NodeOptions) *Node {
	fs := proc.NewFS(o.Procfs, o.Sysfs)
	n := &Node{
		NodeOptions: o, warn: onceEach(o.Warn), packets: proc.NewPackets(fs),
		sources: []collect.Source{proc.NewCPU(fs), proc.NewMemory(fs), proc.NewNet(fs), proc.NewDisk(fs)},
	}
	if o.Conns != nil {
		n.traffic = newTraffic(o.Procfs, o.Conns)
	}
	n.readPackages()
	return n
}

// readPackages reads the CPU packages once. A CPU that is switched on later belongs to none.
func (n *Node) readPackages() {
	packages, err := host.NewRoots(n.Procfs, n.Sysfs).Packages()
	if err != nil {
		n.warn("topology", fmt.Errorf("read the topology: %w", err))
		return
	}
	if len(packages) > gempba.MaxSockets {
		n.warn("sockets", fmt.Errorf("there are %d sockets and telemetry has room for %d: the others are left out", len(packages), gempba.MaxSockets))
	}
	n.packages, n.packageOf = packages, map[int]int{}
	var logical, physical uint64
	for i := range packages {
		p := &packages[i]
		cpus := make([]uint32, len(p.CPUs))
		for k, cpu := range p.CPUs {
			cpus[k], n.packageOf[cpu] = uint32(cpu), i
		}
		logical, physical = logical+uint64(len(cpus)), physical+uint64(p.Cores)
		if i < gempba.MaxSockets {
			n.place.Sockets = append(n.place.Sockets, gempba.Socket{
				SocketID: uint32(p.ID), Name: p.Model, PhysicalCores: rt.Some(uint64(p.Cores)), LogicalCores: rt.Some(uint64(len(cpus))), CPUIDs: cpus,
			})
		}
	}
	n.place.TotalPhysicalCores, n.place.TotalLogicalCores = rt.Some(physical), rt.Some(logical)
}

// Nodes implements FrameSource.
func (n *Node) Nodes(now time.Time) []gempba.NodeFrame {
	n.snap = rt.Snapshot{CPUs: n.snap.CPUs[:0], Nets: n.snap.Nets[:0], Disks: n.snap.Disks[:0]}
	for _, s := range n.sources {
		if err := s.Read(&n.snap); err != nil {
			n.warn(s.Name(), err)
		}
	}
	r := &n.snap.Node
	f := gempba.NodeFrame{
		SentinelWorkerID: n.sentinelID(), Hostname: n.Hostname, SentinelLocalMS: rt.Some(now.UnixMilli()),
		LogicalCores: r.CPUs, MemTotalBytes: r.MemTotal, MemAvailBytes: r.MemAvailable,
		Net:     gempba.NetAggregate{BytesIn: r.NetRxBytes, BytesOut: r.NetTxBytes},
		Disk:    gempba.DiskAggregate{ReadBytes: r.DiskReadBytes, WriteBytes: r.DiskWriteBytes},
		Sockets: []gempba.SocketFrame{},
	}
	var err error
	f.Net.PacketsIn, f.Net.PacketsOut, err = n.packets.Read(n.snap.Nets)
	if err != nil {
		n.warn("packets", err)
	}
	if n.Memory != nil {
		f.CgroupMemUsedBytes, f.CgroupMemLimitBytes = n.Memory()
		if f.CgroupMemLimitBytes.Or(0) == rt.Unlimited {
			f.CgroupMemLimitBytes.Clear()
		}
	}
	if n.packages == nil {
		return []gempba.NodeFrame{f}
	}
	f.SocketCount.Set(uint64(len(n.packages)))
	n.measure(now)
	for i, place := range n.place.Sockets {
		socket := gempba.SocketFrame{SocketID: place.SocketID, CPUPct: n.busy[i]}
		socket.MemTotalBytes, socket.MemUsedBytes = n.packages[i].Memory()
		f.Sockets = append(f.Sockets, socket)
	}
	return []gempba.NodeFrame{f}
}

// measure computes how busy each socket was since the last reading.
func (n *Node) measure(now time.Time) {
	if !n.lastCPU.IsZero() && now.Sub(n.lastCPU) < shortest {
		return
	}
	busy, total := make([]float64, len(n.packages)), make([]float64, len(n.packages))
	for _, cur := range n.snap.CPUs {
		at, ok := n.packageOf[cur.CPU]
		i, found := slices.BinarySearchFunc(n.before, cur.CPU, func(c rt.CPUReading, cpu int) int { return c.CPU - cpu })
		if !ok || !found {
			continue
		}
		prev := &n.before[i].Times
		if cur.Times.Total() < prev.Total() || cur.Times.Busy() < prev.Busy() {
			continue // the kernel set it back: a CPU went off and on
		}
		busy[at] += float64(cur.Times.Busy() - prev.Busy())
		total[at] += float64(cur.Times.Total() - prev.Total())
	}
	n.busy = make([]rt.Opt[float64], len(busy))
	for i := range busy {
		if total[i] > 0 {
			n.busy[i].Set(min(100, busy[i]/total[i]*100))
		}
	}
	n.before, n.lastCPU = append(n.before[:0], n.snap.CPUs...), now
}

// sentinelID returns the worker that represents the node: the chosen one, else the first.
func (n *Node) sentinelID() uint32 {
	chosen, ok := n.sentinel.Get()
	var first uint32
	for i, w := range n.workers {
		if ok && w.id == chosen {
			return chosen
		}
		if i == 0 || w.id < first {
			first = w.id
		}
	}
	return first
}

// Promote implements FrameSource.
func (n *Node) Promote(id uint32) {
	if slices.ContainsFunc(n.workers, func(w *worker) bool { return w.id == id }) {
		n.sentinel.Set(id)
	}
}

// Topology implements FrameSource.
func (n *Node) Topology() *gempba.Topology {
	node := n.place
	node.Hostname, node.SentinelWorkerID, node.MemTotalBytes = n.Hostname, n.sentinelID(), n.snap.Node.MemTotal
	t := &gempba.Topology{}
	for _, w := range n.workers {
		id := gempba.Identity{WorkerID: w.id, Hostname: n.Hostname, PID: rt.Some(int64(w.pids[0])), AllowedCPUs: affinity(w.pids[0])}
		id.PrimarySocket = n.primarySocket(id.AllowedCPUs)
		node.WorkerIDs = append(node.WorkerIDs, w.id)
		t.Identities = append(t.Identities, id)
	}
	slices.Sort(node.WorkerIDs)
	slices.SortFunc(t.Identities, func(a, b gempba.Identity) int { return int(a.WorkerID) - int(b.WorkerID) })
	t.Nodes = []gempba.TopologyNode{node}
	return t
}

// primarySocket returns the socket that has most of the CPUs.
func (n *Node) primarySocket(cpus []uint32) (socket rt.Opt[int64]) {
	most, count := 0, make([]int, len(n.packages))
	for _, cpu := range cpus {
		at, ok := n.packageOf[int(cpu)]
		if !ok {
			continue
		}
		count[at]++
		isFirst := count[at] == most && int64(n.packages[at].ID) < socket.Or(0)
		if count[at] > most || isFirst {
			most = count[at]
			socket.Set(int64(n.packages[at].ID))
		}
	}
	return socket
}

// affinity returns the CPUs that a process may run on, ascending; nil if that is unknown.
func affinity(pid int) []uint32 {
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) != nil {
		return nil
	}
	cpus := []uint32{}
	for cpu := range uint32(len(set) * 64) {
		if set.IsSet(int(cpu)) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Close closes the descriptors.
func (n *Node) Close() error {
	var err error
	for _, s := range n.sources {
		err = errors.Join(err, s.Close())
	}
	return err
}
