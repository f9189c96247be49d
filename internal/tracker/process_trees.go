package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
)

// jobTrees stands in for the cgroup of a job that has none (proctrack/linuxproc): it
// reads the processes below each slurmstepd of the job. The CPU time of slurmstepd
// is in there, what a step used between the last reading and its end is not, and
// neither is a process that has left its parents.
type jobTrees struct {
	fs    proc.FS
	all   *proc.Processes // of the node, read before
	begun *proc.NewestPID
	born  uint64                 // what it said last
	still int                    // searches in a row at which it said the same
	find  func(pids []int) []int // the job's slurmstepds among all processes
	note  func(rt.Event)
	met   chan struct{} // closed when there was one
	began func()        // told of each that is new; nil for nobody
	since int64         // Snapshot.Boot of the first
	alone bool          // the job has had them for long enough, and no cgroup

	mu    sync.Mutex
	trees []stepTree
	ended [2]uint64 // user and system ticks of steps that are over
	part  rt.Snapshot
}

type stepTree struct {
	pid  int
	tree *proc.Tree
	last [2]uint64
}

func newJobTrees(fs proc.FS, all *proc.Processes, find func(pids []int) []int, note func(rt.Event)) *jobTrees {
	return &jobTrees{fs: fs, all: all, begun: proc.NewNewestPID(fs), find: find, note: note, met: make(chan struct{})}
}

// Name is what the ledger calls the source.
func (j *jobTrees) Name() string { return "job trees" }

// Read fills s.Tree while the job has no cgroup but slurmstepds. The Prolog's first
// reading looks for none: it comes before them, and the job waits for it.
func (j *jobTrees) Read(s *rt.Snapshot) error {
	if s.Reason == rt.ReasonFirst || s.Job.Phase != rt.JobPending {
		return nil
	}
	var stepds []int
	if !j.nothingBegan() {
		pids, err := j.all.PIDs(s)
		if err != nil {
			return fmt.Errorf("look for the job's slurmstepds: %w", err)
		}
		stepds = j.find(pids)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, pid := range stepds {
		if !slices.ContainsFunc(j.trees, func(t stepTree) bool { return t.pid == pid }) {
			j.trees = append(j.trees, stepTree{pid: pid, tree: proc.NewTree(j.fs, pid)})
			if j.began != nil {
				j.began()
			}
		}
	}
	j.sum(s)
	return nil
}

// cgroupWithin is how long a job may have slurmstepds before its cgroup: they make it
// at their start, which takes its time on a busy node.
const cgroupWithin = int64(3 * time.Second)

// searchesAfter is how many searches follow the newest process: one has another name
// at its start. One that kept it for longer is found by the search that is made in
// every searchAgain readings.
const (
	searchesAfter = 3
	searchAgain   = 100
)

// nothingBegan says that no process has begun since those that were looked at.
func (j *jobTrees) nothingBegan() bool {
	newest, ok := j.begun.Read()
	if !ok || newest != j.born {
		j.born, j.still = newest, 0
		return false
	}
	j.still++
	return j.still >= searchesAfter && j.still%searchAgain != 0
}

// sum adds the trees up and forgets those whose slurmstepd is gone.
func (j *jobTrees) sum(s *rt.Snapshot) {
	var rss, processes uint64
	living := j.trees[:0]
	for _, t := range j.trees {
		j.part.Tree = rt.TreeReading{}
		err := t.tree.Read(&j.part)
		now := &j.part.Tree
		t.last[0], t.last[1] = now.CPUUserTicks.Or(t.last[0]), now.CPUSystemTicks.Or(t.last[1])
		children, alive := now.Children.Get()
		if err != nil || !alive {
			j.ended[0] += t.last[0]
			j.ended[1] += t.last[1]
			_ = t.tree.Close() // it was only read
			continue
		}
		rss, processes = rss+now.RSS.Or(0), processes+children
		living = append(living, t)
	}
	j.trees = living
	if len(living) > 0 && j.since == 0 {
		j.since = max(s.Boot, 1)
		close(j.met)
	}
	if j.since == 0 {
		return
	}
	if !j.alone && (s.Boot-j.since >= cgroupWithin || s.Reason == rt.ReasonLast || s.Reason == rt.ReasonStop) {
		j.alone = true
		j.note(rt.Event{Time: time.Now(), Kind: "sensor", Name: "cgroup", Status: "absent",
			Detail: "the job has slurmstepds and no cgroup (proctrack/linuxproc): its figures are those of the processes below them, theirs included; what a step used between a reading and its end is not in there"})
	}
	user, system := j.ended[0], j.ended[1]
	for _, t := range living {
		user, system = user+t.last[0], system+t.last[1]
	}
	r := &s.Tree
	r.CPUUserTicks.Set(user)
	r.CPUSystemTicks.Set(system)
	r.RSS.Set(rss)
	r.Children.Set(processes)
}

// PIDs appends the processes that the newest reading found to dst, none while the
// job may yet get a cgroup: slurmstepd's own are not among that one's.
func (j *jobTrees) PIDs(dst []int) []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.trees {
		if !j.alone {
			break
		}
		dst = t.tree.PIDs(dst)
	}
	return dst
}

// Close gives the descriptors back.
func (j *jobTrees) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.trees {
		_ = t.tree.Close() // it was only read
	}
	j.trees = nil
	return j.begun.Close()
}
