package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// Node is what the whole node did during the run, including other jobs.
type Node struct {
	CPUs           rt.Opt[uint64]  `json:"cpus"`
	MeanCores      rt.Opt[float64] `json:"mean_cores"` // mean of the number of busy cores
	MeanLoad       rt.Opt[float64] `json:"mean_load"`  // mean, over the run, of the 1-minute load average
	MaxLoad        rt.Opt[float64] `json:"max_load"`   // highest 1-minute load average
	MeanMHz        rt.Opt[float64] `json:"mean_mhz"`
	MaxMemoryBytes rt.Opt[uint64]  `json:"max_memory_bytes"` // highest memory in use
	MaxCacheBytes  rt.Opt[uint64]  `json:"max_cache_bytes"`  // highest memory in caches, tmpfs and shared memory included; not in MaxMemoryBytes
	MemoryBytes    rt.Opt[uint64]  `json:"memory_bytes"`     // total memory of the node
	ReadBytes      rt.Opt[uint64]  `json:"disk_read_bytes"`
	WriteBytes     rt.Opt[uint64]  `json:"disk_write_bytes"`
	Fabrics        []Fabric        `json:"fabrics,omitempty"`
	RemoteFS       []RemoteFS      `json:"remote_fs,omitempty"`
}

// Fabric is the traffic of one port of a high-speed network, in bytes.
type Fabric struct {
	Device    string         `json:"device"`
	Port      uint64         `json:"port"`
	Link      string         `json:"link,omitempty"`
	RecvBytes rt.Opt[uint64] `json:"recv_bytes"`
	SentBytes rt.Opt[uint64] `json:"sent_bytes"`
}

// RemoteFS is what the node read from and wrote to a network file system, in bytes.
type RemoteFS struct {
	Kind       string         `json:"kind"`
	Source     string         `json:"source"`
	MountPoint string         `json:"mount_point,omitempty"`
	ReadBytes  rt.Opt[uint64] `json:"read_bytes"`
	WriteBytes rt.Opt[uint64] `json:"write_bytes"`
	Ops        rt.Opt[uint64] `json:"ops"`
}

// shortest is the least time from the first to the last reading for which MeanCores is computed, in
// nanoseconds. The kernel counts CPU time in ticks of 10 ms, which are too coarse for a shorter time.
const shortest = 1e9

type nodeTally struct {
	load, mhz mean
	maxLoad   rt.Opt[uint64]
	fabrics   map[Fabric]*fabricTally // by device and port
	remote    map[RemoteFS]*remoteTally
}

type fabricTally struct {
	link   string
	rx, tx total
}

type remoteTally struct{ read, write, ops total }

func newNodeTally() nodeTally {
	return nodeTally{fabrics: map[Fabric]*fabricTally{}, remote: map[RemoteFS]*remoteTally{}}
}

func (t *nodeTally) add(s *rt.Snapshot, secs float64) {
	t.load.add(rt.Scaled(s.Node.Load1, 0.01), secs)
	raise(&t.maxLoad, s.Node.Load1)
	t.mhz.add(rt.Scaled(s.Node.CPUFreq, 0.001), secs)
	for i := range s.Fabrics {
		f := &s.Fabrics[i]
		of := entry(t.fabrics, Fabric{Device: f.Device, Port: f.Port})
		of.link = f.Link
		of.rx.add(f.RxBytes)
		of.tx.add(f.TxBytes)
	}
	for i := range s.RemoteFS {
		f := &s.RemoteFS[i]
		of := entry(t.remote, RemoteFS{Kind: f.Kind, Source: f.Source, MountPoint: f.MountPoint})
		of.read.add(f.ReadBytes)
		of.write.add(f.WriteBytes)
		of.ops.add(f.Ops)
	}
}

func (r *reading) nodeContext() Node {
	t := &r.context
	n := Node{
		CPUs: r.onlineCPUs, MeanLoad: t.load.value(), MaxLoad: rt.Scaled(t.maxLoad, 0.01), MeanMHz: t.mhz.value(),
		MaxMemoryBytes: r.node.memory, MaxCacheBytes: r.node.cached, MemoryBytes: r.memTotal,
		ReadBytes: r.node.read.value(), WriteBytes: r.node.write.value(),
	}
	if used, ok := r.node.cpu.scaled(1.0 / rt.TicksPerSecond).Get(); ok && r.taken.last.boot-r.taken.first.boot >= shortest {
		n.MeanCores.Set(used / (float64(r.taken.last.boot-r.taken.first.boot) / 1e9))
	}
	for _, f := range slices.SortedFunc(maps.Keys(t.fabrics), func(a, b Fabric) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	}) {
		of := t.fabrics[f]
		f.Link, f.RecvBytes, f.SentBytes = of.link, of.rx.value(), of.tx.value()
		n.Fabrics = append(n.Fabrics, f)
	}
	for _, f := range slices.SortedFunc(maps.Keys(t.remote), func(a, b RemoteFS) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.MountPoint, b.MountPoint), cmp.Compare(a.Kind, b.Kind))
	}) {
		of := t.remote[f]
		f.ReadBytes, f.WriteBytes, f.Ops = of.read.value(), of.write.value(), of.ops.value()
		n.RemoteFS = append(n.RemoteFS, f)
	}
	return n
}
