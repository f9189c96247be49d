package tracker

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
)

// ProcessTrees replaces the cgroup of a job that has none (proctrack/linuxproc) by the processes
// below each slurmstepd, with its CPU time. The figures lack what a step used after the last
// reading, and every process that has left its parents.
type ProcessTrees struct {
	fs        proc.FS
	all       *proc.Processes        // of the node, read before
	find      func(pids []int) []int // selects the job's slurmstepds
	note      func(rt.Event)
	met       chan struct{} // closed when the first slurmstepd was found
	stepBegun func()        // called for each new slurmstepd; may be nil
	since     int64         // Snapshot.Boot of the first slurmstepd
	noCgroup  bool          // the job has had slurmstepds for cgroupWithin, and no cgroup

	mu    sync.Mutex
	trees []stepTree
	ended [2]uint64 // user and system ticks of steps that are over
	part  rt.Snapshot
}

type stepTree struct {
	pid  int
	tree *proc.Tree

	now   rt.TreeReading
	alive bool
	last  [2]uint64 // user and system ticks
}

// NewProcessTrees returns the source. all is read before it; find selects the job's slurmstepds
// among pids; note receives an event when the job turns out to have no cgroup.
func NewProcessTrees(fs proc.FS, all *proc.Processes, find func(pids []int) []int, note func(rt.Event)) *ProcessTrees {
	return &ProcessTrees{fs: fs, all: all, find: find, note: note, met: make(chan struct{})}
}

// Name returns the name of the source in the ledger.
func (*ProcessTrees) Name() string { return "job trees" }

// Read fills s.Tree while the job has no cgroup but slurmstepds. The Prolog's first
// reading skips the search: it precedes them, and the job waits for that reading.
func (j *ProcessTrees) Read(s *rt.Snapshot) error {
	if s.Reason == rt.ReasonFirst || s.Job.Phase != rt.JobPending {
		return nil
	}
	pids, err := j.all.PIDs(s)
	if err != nil {
		return fmt.Errorf("look for the job's slurmstepds: %w", err)
	}
	stepds := j.find(pids)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, pid := range stepds {
		if !slices.ContainsFunc(j.trees, func(t stepTree) bool { return t.tree.Has(pid) }) {
			j.trees = append(j.trees, stepTree{pid: pid, tree: proc.NewTree(j.fs, pid)})
			if j.stepBegun != nil {
				j.stepBegun()
			}
		}
	}
	j.sum(s)
	return nil
}

// cgroupWithin is how long slurmstepds may take to make a cgroup, on a busy node.
const cgroupWithin = int64(3 * time.Second)

// read reads every tree. A task that slurmstepd forked is named slurmstepd until it calls exec. If
// the search takes the task for a step, read drops its tree, which is part of the parent's tree.
func (j *ProcessTrees) read() {
	for i := range j.trees {
		t := &j.trees[i]
		j.part.Tree = rt.TreeReading{}
		err := t.tree.Read(&j.part)
		t.now, t.alive = j.part.Tree, err == nil && j.part.Tree.Children.Valid()
		t.last[0], t.last[1] = t.now.CPUUserTicks.Or(t.last[0]), t.now.CPUSystemTicks.Or(t.last[1])
	}
	for i := len(j.trees) - 1; i >= 0; i-- {
		pid := j.trees[i].pid
		isInAnother := func(t stepTree) bool { return t.pid != pid && t.tree.Has(pid) }
		if slices.ContainsFunc(j.trees, isInAnother) {
			_ = j.trees[i].tree.Close() // it was only read
			j.trees = slices.Delete(j.trees, i, i+1)
		}
	}
}

// sum adds the trees up and drops the trees of exited slurmstepds.
func (j *ProcessTrees) sum(s *rt.Snapshot) {
	var rss, processes uint64
	j.read()
	living := j.trees[:0]
	for _, t := range j.trees {
		if !t.alive {
			j.ended[0] += t.last[0]
			j.ended[1] += t.last[1]
			_ = t.tree.Close() // it was only read
			continue
		}
		rss, processes = rss+t.now.RSS.Or(0), processes+t.now.Children.Or(0)
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
	j.checkCgroup(s)
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

// checkCgroup decides, once, that the job has no cgroup.
func (j *ProcessTrees) checkCgroup(s *rt.Snapshot) {
	isLate := s.Boot-j.since >= cgroupWithin
	isEnd := s.Reason == rt.ReasonLast || s.Reason == rt.ReasonStop
	isDecided := isLate || isEnd
	if j.noCgroup || !isDecided {
		return
	}
	j.noCgroup = true
	j.note(rt.Event{Kind: "sensor", Name: "cgroup", Status: "absent",
		Detail: "the job has slurmstepds and no cgroup (proctrack/linuxproc): its figures are those of the processes below the slurmstepds, these included, without what a step used between the last reading and its end"})
}

// PIDs appends the processes of the newest reading to dst; none while a cgroup may come.
func (j *ProcessTrees) PIDs(dst []int) []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.noCgroup {
		return dst
	}
	for _, t := range j.trees {
		dst = t.tree.PIDs(dst)
	}
	return dst
}

// Close closes all descriptors.
func (j *ProcessTrees) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.trees {
		_ = t.tree.Close() // it was only read
	}
	j.trees = nil
	return nil
}
