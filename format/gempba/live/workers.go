package live

import (
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/gempba"
)

// Group is one worker: a process, or the processes of one task.
type Group struct {
	Key  string // identifies it between readings
	PIDs []int  // its processes, beginning with the one that names it
	// CPU is the time of all its processes, also of ended ones, in microseconds; read if absent.
	CPU rt.Opt[uint64]
}

// Groups finds the workers, in the order in which they get ids.
type Groups func() ([]Group, error)

// worker is a group, kept between readings.
type worker struct {
	id     uint32
	key    string
	seq    uint64
	pids   []int
	last   time.Time             // of the reading that CPU time is counted from
	cpu    rt.Opt[uint64]        // of Group.CPU, then
	clocks map[int]time.Duration // CPU time of each process, then
	pct    rt.Opt[float64]
}

// shortest is the least interval of a CPU percentage.
const shortest = 40 * time.Millisecond

// Workers implements FrameSource.
func (n *Node) Workers(now time.Time) []gempba.WorkerFrame {
	groups, err := n.Groups()
	if err != nil {
		n.warn("workers", err)
	}
	n.dropEnded(groups)
	out := make([]gempba.WorkerFrame, 0, len(groups))
	for i := range groups {
		w := n.workerOf(&groups[i])
		if w == nil {
			n.warn("limit", fmt.Errorf("there are %d workers and telemetry has room for %d: the others are left out", len(groups), gempba.MaxWorkers))
			continue
		}
		if f, ok := n.frame(w, &groups[i], now); ok {
			out = append(out, f)
		} else {
			delete(n.byKey, w.key)
		}
	}
	n.workers = slices.DeleteFunc(n.workers, func(w *worker) bool { return n.byKey[w.key] != w })
	n.connect(out, now)
	slices.SortFunc(out, func(a, b gempba.WorkerFrame) int { return int(a.WorkerID) - int(b.WorkerID) })
	return out
}

// connect adds what workers have sent to each other to the frames.
func (n *Node) connect(frames []gempba.WorkerFrame, now time.Time) {
	if n.traffic == nil {
		return
	}
	if err := n.traffic.update(now, n.workers); err != nil {
		n.warn("connections", err)
		n.traffic = nil
		return
	}
	keys, ids := make(map[uint32]string, len(n.workers)), make(map[string]uint32, len(n.workers))
	for _, w := range n.workers {
		keys[w.id], ids[w.key] = w.key, w.id
	}
	idOf := func(key string) (uint32, bool) { id, ok := ids[key]; return id, ok }
	room := maxPeers
	for i := range frames {
		key := keys[frames[i].WorkerID]
		frames[i].EdgesOut = n.traffic.sums.edges(key, idOf)
		if n.Peers {
			peers := n.traffic.peers(key)
			frames[i].Peers = peers[:min(len(peers), room)]
			room -= len(frames[i].Peers)
		}
	}
}

// maxPeers is how many connections to other nodes a line has.
const maxPeers = 1 << 14

// dropEnded removes the workers that have ended, so that their ids are free.
func (n *Node) dropEnded(groups []Group) {
	before := n.byKey
	n.byKey = make(map[string]*worker, len(groups))
	for i := range groups {
		if w := before[groups[i].Key]; w != nil {
			n.byKey[w.key] = w
		}
	}
	n.workers = slices.DeleteFunc(n.workers, func(w *worker) bool { return n.byKey[w.key] != w })
}

// newID returns an id for a new worker, one of an ended worker only if there is no other.
func newID(next *uint32, mark func(taken []bool)) (uint32, bool) {
	if *next < gempba.MaxWorkers {
		*next++
		return *next - 1, true
	}
	taken := make([]bool, gempba.MaxWorkers)
	mark(taken)
	free := slices.Index(taken, false)
	return uint32(free), free >= 0
}

// workerOf returns the worker of a group, a new one for a new group; nil if no id is left.
func (n *Node) workerOf(g *Group) *worker {
	if w := n.byKey[g.Key]; w != nil {
		return w
	}
	id, ok := newID(&n.nextID, func(taken []bool) {
		for _, w := range n.workers {
			taken[w.id] = true
		}
	})
	if !ok {
		return nil
	}
	w := &worker{id: id, key: g.Key, clocks: map[int]time.Duration{}}
	n.workers, n.byKey[w.key] = append(n.workers, w), w
	return w
}

// frame reads a worker; false if all of its processes have ended.
func (n *Node) frame(w *worker, g *Group, now time.Time) (gempba.WorkerFrame, bool) {
	var rss, threads uint64
	w.pids = w.pids[:0]
	for _, pid := range g.PIDs {
		of, resident, err := proc.ReadUse(n.Procfs, pid)
		if err != nil {
			continue // it has just ended
		}
		w.pids = append(w.pids, pid)
		rss += resident
		threads += of
	}
	if len(w.pids) == 0 {
		return gempba.WorkerFrame{}, false
	}
	w.measure(g, now)
	w.seq++
	return gempba.WorkerFrame{
		WorkerID: w.id, SeqNo: rt.Some(w.seq), WorkerLocalMS: rt.Some(now.UnixMilli()),
		ProcessCPUPct: w.pct, ProcessRSSBytes: rt.Some(rss), ProcessThreads: rt.Some(threads),
		EdgesOut: []gempba.Edge{},
	}, true
}

// measure computes the CPU time since the last reading, with all CPU time of new processes.
func (w *worker) measure(g *Group, now time.Time) {
	over := now.Sub(w.last)
	if !w.last.IsZero() && over < shortest {
		return
	}
	var used time.Duration
	known := true
	clocks := make(map[int]time.Duration, len(w.pids))
	for _, pid := range w.pids {
		at, err := proc.CPUTime(pid)
		known = known && err == nil
		clocks[pid] = at
		used += max(0, at-w.clocks[pid])
	}
	if cpu, ok := g.CPU.Get(); ok {
		before, counted := w.cpu.Get()
		used, known = time.Duration(cpu-before)*time.Microsecond, counted && cpu >= before
	}
	w.pct.Clear()
	if known && !w.last.IsZero() {
		w.pct.Set(float64(used) / float64(over) * 100)
	}
	w.last, w.cpu, w.clocks = now, g.CPU, clocks
}
