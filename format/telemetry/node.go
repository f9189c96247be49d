package telemetry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
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
	// Conns lists the node's TCP connections, for the edges of the workers. Nil for none.
	Conns Conns
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

	machine *machine // nil if it cannot be read
	sources []collect.Source
	snap    rt.Snapshot
	before  []rt.CPUReading
	busy    []rt.Opt[float64] // percent, of each socket
	lastCPU time.Time
	packets packets
	traffic *traffic // nil if the connections are not known
}

// NewNode returns a source that has read only the machine.
func NewNode(o NodeOptions) *Node {
	fs := proc.NewFS(o.Procfs, o.Sysfs)
	n := &Node{
		NodeOptions: o, warn: onceEach(o.Warn), packets: newPackets(o.Procfs),
		sources: []collect.Source{proc.NewCPU(fs), proc.NewMemory(fs), proc.NewNet(fs), proc.NewDisk(fs)},
	}
	if o.Conns != nil {
		n.traffic = newTraffic(o.Procfs, o.Conns)
	}
	var err error
	n.machine, err = readMachine(o.Procfs, o.Sysfs)
	if err != nil {
		n.warn("topology", fmt.Errorf("read the topology: %w", err))
		n.machine = nil
	} else if len(n.machine.sockets) > gempba.MaxSockets {
		n.warn("sockets", fmt.Errorf("there are %d sockets and telemetry has room for %d: the others are left out", len(n.machine.sockets), gempba.MaxSockets))
	}
	return n
}

// Nodes implements Source.
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
	if err := n.packets.read(&f.Net, n.snap.Nets); err != nil {
		n.warn("packets", err)
	}
	if n.Memory != nil {
		f.CgroupMemUsedBytes, f.CgroupMemLimitBytes = n.Memory()
		if f.CgroupMemLimitBytes.Or(0) == rt.Unlimited {
			f.CgroupMemLimitBytes.Clear()
		}
	}
	if n.machine == nil {
		return []gempba.NodeFrame{f}
	}
	f.SocketCount.Set(uint64(len(n.machine.sockets)))
	n.measure(now)
	for i := range n.machine.sockets[:min(len(n.machine.sockets), gempba.MaxSockets)] {
		p := &n.machine.sockets[i]
		s := gempba.SocketFrame{SocketID: p.SocketID, CPUPct: n.busy[i]}
		s.MemTotalBytes, s.MemUsedBytes = p.memory()
		f.Sockets = append(f.Sockets, s)
	}
	return []gempba.NodeFrame{f}
}

// measure computes how busy each socket was since the last reading.
func (n *Node) measure(now time.Time) {
	if !n.lastCPU.IsZero() && now.Sub(n.lastCPU) < shortest {
		return
	}
	busy, total := make([]float64, len(n.machine.sockets)), make([]float64, len(n.machine.sockets))
	for _, cur := range n.snap.CPUs {
		at, ok := n.machine.socketOf[cur.CPU]
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

// Promote implements Source.
func (n *Node) Promote(id uint32) {
	if slices.ContainsFunc(n.workers, func(w *worker) bool { return w.id == id }) {
		n.sentinel.Set(id)
	}
}

// Topology implements Source.
func (n *Node) Topology() *gempba.Topology {
	node := gempba.TopologyNode{Hostname: n.Hostname, SentinelWorkerID: n.sentinelID(), MemTotalBytes: n.snap.Node.MemTotal}
	t := &gempba.Topology{}
	if m := n.machine; m != nil {
		node.TotalPhysicalCores.Set(uint64(m.physical))
		node.TotalLogicalCores.Set(uint64(m.logical))
		for i := range m.sockets[:min(len(m.sockets), gempba.MaxSockets)] {
			node.Sockets = append(node.Sockets, m.sockets[i].Socket)
		}
	}
	for _, w := range n.workers {
		id := gempba.Identity{WorkerID: w.id, Hostname: n.Hostname, PID: rt.Some(int64(w.pids[0])), AllowedCPUs: affinity(w.pids[0])}
		if n.machine != nil {
			id.PrimarySocket = n.machine.primary(id.AllowedCPUs)
		}
		node.WorkerIDs = append(node.WorkerIDs, w.id)
		t.Identities = append(t.Identities, id)
	}
	slices.Sort(node.WorkerIDs)
	slices.SortFunc(t.Identities, func(a, b gempba.Identity) int { return int(a.WorkerID) - int(b.WorkerID) })
	t.Nodes = []gempba.TopologyNode{node}
	return t
}

// Close closes the descriptors.
func (n *Node) Close() error {
	var err error
	for _, s := range n.sources {
		err = errors.Join(err, s.Close())
	}
	return err
}

// packets counts the packets of the interfaces of rt.Wire. The sums survive a reset or loss of an interface.
type packets struct {
	file  string
	seen  map[string][2]uint64
	total [2]uint64 // in, out
}

// read sets the sums, or leaves them absent. nets are the interfaces of the node.
func (p *packets) read(to *gempba.NetAggregate, nets []rt.NetReading) error {
	b, err := os.ReadFile(p.file)
	if err != nil {
		return fmt.Errorf("count packets: %w", err)
	}
	now, err := parsePackets(string(b))
	if err != nil {
		return fmt.Errorf("count packets: %s: %w", p.file, err)
	}
	wire := rt.NewWire(nets)
	for name, counts := range now {
		at := slices.IndexFunc(nets, func(n rt.NetReading) bool { return n.Name == name })
		isCounted := at >= 0 && wire.Has(at)
		if !isCounted {
			continue
		}
		before, known := p.seen[name]
		for k := range counts {
			switch {
			case known && counts[k] >= before[k]:
				p.total[k] += counts[k] - before[k]
			case known || p.seen == nil:
				p.total[k] += counts[k]
			}
		}
	}
	p.seen = now
	to.PacketsIn, to.PacketsOut = rt.Some(p.total[0]), rt.Some(p.total[1])
	return nil
}

// parsePackets parses the second and the tenth figure of each interface.
func parsePackets(text string) (map[string][2]uint64, error) {
	out := map[string][2]uint64{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "lo" {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 16 {
			return nil, fmt.Errorf("interface %.20s has %d figures, not 16", name, len(fields))
		}
		in, err1 := strconv.ParseUint(fields[1], 10, 64)
		sent, err2 := strconv.ParseUint(fields[9], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("the packets of interface %.20s are no numbers", name)
		}
		out[name] = [2]uint64{in, sent}
	}
	return out, nil
}

func newPackets(procfs string) packets {
	return packets{file: filepath.Join(procfs, "net/dev")}
}
