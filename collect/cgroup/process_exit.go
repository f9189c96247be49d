package cgroup

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// maxLooks limits the checks of a task between two readings that exits of its processes
// cause: a task with thousands of processes costs no more.
const maxLooks = 16

// The end of one process of each task is awaited. After that the task's directory exists
// for some milliseconds at least, and with it what the task has used.
//
// If another process gets the pid between the list and pidfd_open(2), the task is only checked
// later.

// unwatch no longer waits for the end of a process.
func (g *group) unwatch() {
	if g.task.pidfd >= 0 {
		_ = unix.Close(g.task.pidfd)
	}
	g.task.pidfd = -1
}

// pidfds opens descriptors of processes.
type pidfds struct {
	epoll *epoll
	off   bool // no process can be waited for
}

// open waits for the end of a process from now on. The descriptor is -1 if the process has
// ended, or if an old kernel (before Linux 5.3), a container or a limit forbids it.
func (p *pidfds) open(pid int) (pidfd int) {
	if p.off {
		return -1
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		p.off = !isOfNoProcess(err)
		return -1
	}
	if err := p.epoll.Add(pidfd); err != nil {
		p.off = true
		_ = unix.Close(pidfd)
		return -1
	}
	return pidfd
}

// isOfNoProcess reports whether pidfd_open(2) found no process with the number. If a thread has it,
// the error is EINVAL, and ENOENT since Linux 6.15.
func isOfNoProcess(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT)
}

// processJoined records that a process was moved to a task.
func (s *taskSet) processJoined(g *group) {
	if step := g.step; step != nil {
		if !g.task.hadProcess && s.members(step) && len(s.pids) > 0 {
			step.all.isMixed = true
		}
		step.isFinal = false
	}
	g.task.hadProcess, g.isFinal, g.task.looks = true, false, max(g.task.looks, 1)
	s.watchExit(g)
}

// watchExit waits for the end of one of a task's processes, if it does not wait for one
// yet. The task is read if all of them have ended.
func (s *taskSet) watchExit(g *group) {
	t := &g.task
	for before := 0; t.looks > 0 && t.pidfd < 0 && !g.isFinal && g.isTask(); {
		t.looks--
		if !s.members(g) {
			return
		}
		if len(s.pids) == 0 {
			s.taskExited(g)
			return
		}
		t.hadProcess = true
		if s.pids[0] == before { // it has not ended and cannot be waited for: another pid namespace's
			return
		}
		before = s.pids[0]
		for _, pid := range s.pids[:min(len(s.pids), 4)] {
			t.pidfd = s.pidfds.open(pid)
			if t.pidfd >= 0 {
				return
			}
		}
		if s.pidfds.off {
			return
		}
	}
}

// taskExited reads a task without a process, in all hierarchies.
func (s *taskSet) taskExited(g *group) {
	if !g.task.hadProcess { // slurmstepd has made the directory and put no process there yet
		g.task.in = nil // it may be in another hierarchy
		return
	}
	g.isFinal = s.read(g)
	s.finishStep(g.step)
}

// finishStep reads a step if all of its tasks have ended, and the job. With v2 a step can have a process that
// was seen in no task yet.
func (s *taskSet) finishStep(step *group) {
	if step == nil || step.isFinal {
		return
	}
	if slices.ContainsFunc(s.groups, func(g *group) bool {
		return g.step == step && g.task.hadProcess && !g.isFinal && !g.task.isGone
	}) {
		return
	}
	haveTasksEnded := slices.ContainsFunc(s.groups, func(g *group) bool { return g.step == step && g.task.hadProcess })
	isEmpty := !s.hasProcess(step, haveTasksEnded)
	isRead := s.read(step)
	step.isFinal = isRead && isEmpty
	s.state.ReadJob()
}

// ProcessExited reads the task to which the ended process with this descriptor belongs. It
// returns false if the descriptor belongs to no process of a task.
func (s *taskSet) ProcessExited(pidfd int) bool {
	g := first(s.groups, func(g *group) bool { return g.task.pidfd == pidfd })
	if g == nil {
		return false
	}
	g.unwatch()
	s.watchExit(g)
	if !g.isFinal {
		s.read(g)
	}
	return true
}

// ReadEnding reads the steps and tasks of a directory that was removed or has no process
// any more, because soon they cannot be read. At the end of a step its tasks are read
// first, and only once, because there can be many. The step itself can be read a little
// longer. With v2 the events of the first and the last process are the same: a directory
// with a process is not at its end.
func (s *taskSet) ReadEnding(root, path, step string, isRemoved bool) {
	var own *group
	if n := s.find(root).find(path); n != nil {
		own = n.own
	}
	if own != nil && isRemoved {
		own.task.isGone = true
	}
	for _, g := range s.groups {
		if g.r.Step != step || !g.isTask() {
			continue
		}
		isAffected := g == own
		if isRemoved {
			isAffected = !g.task.isLastRead && !g.isFinal
		}
		if isAffected {
			s.readEndingTask(g, isRemoved)
		}
	}
	for _, g := range s.groups {
		isAffected := isRemoved || g == own
		if g.r.Step == step && !g.isTask() && isAffected {
			if !isRemoved && s.hasProcess(g, false) {
				g.isFinal = false
			} else {
				s.finishStep(g)
			}
			s.read(g)
		}
	}
}

func (s *taskSet) readEndingTask(g *group, isRemoved bool) {
	g.task.isLastRead = isRemoved
	g.unwatch() // the process may have gone elsewhere
	g.task.looks = max(g.task.looks, 1)
	hasProcess := !isRemoved && g.isFinal && s.members(g) && len(s.pids) > 0
	if hasProcess {
		g.isFinal = false
		if g.step != nil {
			g.step.isFinal = false
		}
	}
	s.watchExit(g)
	if !isRemoved || !g.isFinal {
		s.read(g)
	}
}
