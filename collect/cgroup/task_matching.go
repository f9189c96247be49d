package cgroup

import (
	"path/filepath"
	"slices"
	"time"
)

// With cgroup v1 Slurm uses different task numbers in different hierarchies. Example: a step
// has eight tasks on two nodes, and tasks 1, 3, 5 and 7 run on the second node. There task 3
// has the directories:
//
//	cpuacct  task_3  the number in the step
//	memory   task_1  the number on the node; before it task_3, which stays: empty, or of task 7
//
// Therefore this file matches the directories of a task by the processes in them. A task is
// reported only if its processes were seen in every hierarchy with tasks of its step; else
// only the step is reported. The number of the task on the node is the lowest number of its
// directories.

// settleTime is the delay between the creation of a step's last directory and the first
// report of its tasks. After it slurmstepd no longer moves their processes.
const settleTime = 250 * time.Millisecond

// maxSeen is the number of processes of a task that are used to match its directories.
const maxSeen = 4

// enterTaskV1 adds the directory of a task, and waits for its processes.
func (s *taskSet) enterTaskV1(h *hierarchy, n *directory) {
	if n.step != nil {
		all := &n.step.all
		all.tasksIn = with(all.tasksIn, h.dir)
		all.lastTaskMade = time.Now()
	}
	// slurmstepd writes to it; the kernel reports nothing by itself
	s.state.WatchFile(filepath.Join(n.path, "cgroup.procs"))
	s.matchListed(h, n)
}

// matchListed matches the directory of a task if it already has a process.
func (s *taskSet) matchListed(h *hierarchy, n *directory) {
	s.list(h, n)
	if len(s.pids) > 0 {
		s.ProcessJoined(n.path)
	}
}

// MatchAgain matches the v1 directories without a task, after inotify events were lost.
func (s *taskSet) MatchAgain() {
	if s.version != 1 {
		return
	}
	for _, h := range s.all {
		for _, n := range h.dirs {
			isTask := n.at.IsGroup(1) && n.at.Task.Valid()
			if isTask && n.own == nil {
				s.matchListed(h, n)
			}
		}
	}
}

// with returns names with name added, if it was not in names.
func with(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// ProcessJoined assigns the v1 directory of a task after a process was moved into it.
func (s *taskSet) ProcessJoined(path string) {
	for _, h := range s.all {
		n := h.find(path)
		for i := 0; n != nil && i < maxSeen; i++ { // the task may have left a directory that now belongs to another task
			n = s.match(h, n)
		}
	}
}

// match assigns a directory to the task that has a process in it. It returns the directory
// of the same hierarchy that the task left, nil for none.
func (s *taskSet) match(h *hierarchy, n *directory) (left *directory) {
	s.list(h, n)
	seen := s.pids[:min(len(s.pids), maxSeen)]
	isCertain := len(seen) > 0 || s.Len() == 1 // else its processes have ended, or are seen in another directory
	if s.isLeft(h, n) {
		h.detach(n)
	}
	if n.own == nil && isCertain {
		left = s.assignSeen(h, n, seen)
	}
	if n.own != nil {
		s.processJoined(n.own)
	}
	return left
}

// isLeft reports whether the processes in a directory, as listed by s.list, belong to another
// task than the directory. This happens if a process of the task passed through the directory,
// and ended before it was seen in another one. In the leading hierarchy a process stays in its
// directory.
func (s *taskSet) isLeft(h *hierarchy, n *directory) bool {
	isTransient := n.own != nil && n.own.dirs > 1 && h != s.lead()
	if !isTransient || len(s.pids) == 0 {
		return false
	}
	return !slices.ContainsFunc(s.pids, func(pid int) bool { return slices.Contains(n.own.task.seen, pid) })
}

// assignSeen assigns a directory to the task of these processes, and creates the task if there
// is none. It returns the directory that the task left.
func (s *taskSet) assignSeen(h *hierarchy, n *directory, seen []int) (left *directory) {
	g := first(s.groups, func(g *group) bool {
		return g.isTask() && g.r.Step == n.at.Step && slices.ContainsFunc(seen, func(pid int) bool { return slices.Contains(g.task.seen, pid) })
	})
	if g == nil {
		g = s.newGroup(n)
		if g != nil {
			g.task.seen = slices.Clone(seen)
			s.assign(h, n, g)
		}
		return nil
	}
	left = first(h.dirs, func(o *directory) bool { return o.own == g })
	if left != nil {
		h.detach(left)
	}
	s.assign(h, n, g)
	g.task.in = nil
	if !g.isReported {
		g.r.Task.Set(min(g.r.Task.Or(0), n.at.Task.Or(0)))
	}
	return left
}

// taskNumbers holds the numbers under which tasks are reported.
type taskNumbers struct {
	version  int           // of the cgroup interface; 0 before a directory was entered
	Settle   time.Duration // how long tasks are awaited, see settleTime
	reported []taskNumber  // v1: of the tasks that were reported
}

// taskNumber is the number under which a task was reported.
type taskNumber struct {
	step string
	task uint64
}

func (g *group) number() taskNumber { return taskNumber{g.r.Step, g.r.Task.Or(0)} }

// isReportable reports whether g is reported separately: all of its directories are known, and
// no other task of its step was reported under its number. A group that was reported once is
// always reported.
func (t *taskNumbers) isReportable(g *group) bool {
	if t.version == 2 || !g.isTask() || g.isReported {
		return true
	}
	isMatched := g.step == nil || len(g.task.matchedIn) == len(g.step.all.tasksIn)
	return isMatched && !slices.Contains(t.reported, g.number())
}

// isSettled reports whether g, a group of a job with this number of hierarchies, may be
// reported under its number.
func (t *taskNumbers) isSettled(g *group, hierarchies int) bool {
	if g.isReported || !g.isTask() {
		return true
	}
	isNew := t.version == 1 && hierarchies > 1 && g.step != nil && time.Since(g.step.all.lastTaskMade) < t.Settle
	return !isNew && t.isReportable(g)
}

// setReported records that g is reported, and its number, which never changes.
func (t *taskNumbers) setReported(g *group) {
	isNewTask := t.version == 1 && g.isTask() && !g.isReported
	if isNewTask {
		t.reported = append(t.reported, g.number())
	}
	g.isReported = true
}

// forgetNumbers forgets the numbers of the steps without a group: the step and all of its tasks
// have ended.
func (t *taskNumbers) forgetNumbers(groups []*group) {
	t.reported = slices.DeleteFunc(t.reported, func(n taskNumber) bool {
		return !slices.ContainsFunc(groups, func(g *group) bool { return g.r.Step == n.step })
	})
}
