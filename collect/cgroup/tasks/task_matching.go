package tasks

import (
	"path/filepath"
	"slices"
	"time"
)

// Slurm with cgroup v1 numbers the tasks of a step differently in two hierarchies. If a step
// has eight tasks on two nodes, and tasks 1, 3, 5 and 7 on the second, task 3 has there:
//
//	cpuacct  task_3  the number in the step
//	memory   task_1  the number on the node; before it task_3, which stays: empty, or of task 7
//
// The directories of a task are therefore matched by the processes in them. If the processes
// of a task were seen in only one hierarchy, then only the step is reported. The lowest number
// of a task's directories is the one on the node.

// settleTime is how long after its last directory was made a step's tasks are reported:
// by then slurmstepd has put their processes where they stay.
const settleTime = 250 * time.Millisecond

// maxSeen is how many processes of a task match its directories.
const maxSeen = 4

// enterTaskV1 adds the directory of a task, and waits for its processes.
func (s *Set) enterTaskV1(h *hierarchy, n *directory) {
	if n.step != nil {
		all := &n.step.all
		if all.tasksIn == nil {
			all.tasksIn = h
		}
		all.isSpread = all.isSpread || all.tasksIn != h
		all.lastTaskMade = time.Now()
	}
	// slurmstepd writes to it; the kernel reports nothing by itself
	s.host.WatchFile(filepath.Join(n.path, "cgroup.procs"))
	s.list(h, n)
	if len(s.pids) > 0 { // a process was put there before
		s.ProcessJoined(n.path)
	}
}

// ProcessJoined assigns the directory of a task, of v1, to which a process was moved.
func (s *Set) ProcessJoined(path string) {
	h, n := s.findDir(path)
	for i := 0; n != nil && i < maxSeen; i++ { // the task may have left a directory that is another's now
		n = s.match(h, n)
	}
}

// match assigns a directory to the task that has a process in it. It returns the directory
// of the same hierarchy that the task left, nil for none.
func (s *Set) match(h *hierarchy, n *directory) (left *directory) {
	s.list(h, n)
	seen := s.pids[:min(len(s.pids), maxSeen)]
	isCertain := len(seen) > 0 || s.Len() == 1 // else its processes have ended, or gone where they are seen
	if n.own == nil && isCertain {
		left = s.assignSeen(h, n, seen)
	}
	if n.own != nil {
		s.processJoined(n.own)
	}
	return left
}

// assignSeen assigns a directory to the task of these processes, which is made if there
// is none. It returns the directory that the task left.
func (s *Set) assignSeen(h *hierarchy, n *directory, seen []int) (left *directory) {
	i := slices.IndexFunc(s.groups, func(g *Group) bool {
		return g.isTask() && g.r.Step == n.at.Step && slices.ContainsFunc(seen, func(pid int) bool { return slices.Contains(g.task.seen, pid) })
	})
	if i < 0 {
		if g := s.newGroup(n); g != nil {
			g.task.seen = slices.Clone(seen)
			s.assign(h, n, g)
		}
		return nil
	}
	g := s.groups[i]
	if i := slices.IndexFunc(h.dirs, func(o *directory) bool { return o.own == g }); i >= 0 {
		left = h.dirs[i]
		h.detach(left)
	}
	s.assign(h, n, g)
	g.task.in = nil
	g.task.isMatched = g.dirs > 1
	if !g.isReported {
		g.r.Task.Set(min(g.r.Task.Or(0), n.at.Task.Or(0)))
	}
	return left
}

// isReportable says whether all directories of g are known.
func (s *Set) isReportable(g *Group) bool {
	if s.version == 2 || !g.isTask() || g.task.isMatched {
		return true
	}
	return g.step != nil && !g.step.all.isSpread
}

// isSettled says whether g may be reported under its number.
func (s *Set) isSettled(g *Group) bool {
	if g.isReported || !g.isTask() {
		return true
	}
	isNew := s.version == 1 && s.Len() > 1 && g.step != nil && time.Since(g.step.all.lastTaskMade) < s.Settle
	return !isNew && s.isReportable(g)
}
