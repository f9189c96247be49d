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

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/internal/procfile"
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

// Workers implements Source.
func (n *Node) Workers(now time.Time) []gempba.WorkerFrame {
	groups, err := n.Groups()
	if err != nil {
		n.warn("workers", err)
	}
	n.settle(groups)
	out := make([]gempba.WorkerFrame, 0, len(groups))
	for i := range groups {
		w := n.worker(&groups[i])
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
	if err := n.traffic.look(now, n.workers); err != nil {
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
		frames[i].EdgesOut = n.traffic.sums.of(key, idOf)
		if n.Peers {
			peers := n.traffic.peers(key)
			frames[i].Peers = peers[:min(len(peers), room)]
			room -= len(frames[i].Peers)
		}
	}
}

// maxPeers is how many connections to other nodes a line has.
const maxPeers = 1 << 14

// settle removes the workers that have ended, so that their ids are free.
func (n *Node) settle(groups []Group) {
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

// worker returns the worker of a group, a new one for a new group; nil if no id is left.
func (n *Node) worker(g *Group) *worker {
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
		st, err := readStat(n.Procfs, pid)
		if err != nil {
			continue // it has just ended
		}
		w.pids = append(w.pids, pid)
		rss += st.rss
		threads += st.threads
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
		at, err := cpuClock(pid)
		if err != nil {
			known = known && errors.Is(err, unix.EINVAL) // it has ended since
			continue
		}
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

// cpuClock returns the CPU time of all threads of a process, to the nanosecond:
// CLOCK_PROCESS_CPUTIME_ID of another process, clock_getcpuclockid(3).
func cpuClock(pid int) (time.Duration, error) {
	const sched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

type stat struct{ threads, rss uint64 }

var pageSize = uint64(os.Getpagesize())

// readStat reads the threads and the resident memory of a process. Resident pages are the
// second figure of /proc/<pid>/statm, which is exact; field 24 of stat may be off by some
// hundred pages for each CPU. A zombie is an error.
func readStat(procfs string, pid int) (stat, error) {
	st, err := procfile.ReadStat(procfs, pid)
	if err != nil {
		return stat{}, err
	}
	dir := filepath.Join(procfs, strconv.Itoa(pid))
	if st.Ended() {
		return stat{}, fmt.Errorf("%s/stat: it has ended", dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, "statm"))
	if err != nil {
		return stat{}, err
	}
	rss, err := parseResident(b, dir)
	return stat{threads: st.Threads, rss: rss}, err
}

// parseResident returns resident memory in bytes.
func parseResident(b []byte, dir string) (uint64, error) {
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("parse %s/statm: it has %d figures", dir, len(fields))
	}
	pages, err := strconv.ParseUint(fields[1], 10, 40)
	if err != nil {
		return 0, fmt.Errorf("parse %s/statm: %w", dir, err)
	}
	return pages * pageSize, nil
}
