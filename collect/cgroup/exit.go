package cgroup

import (
	"errors"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxLooks is how often a task whose processes come and go is looked at between
// two readings because one of them ended: one that makes thousands costs no more.
const maxLooks = 16

// exits tells when processes end: of each task, one that is in its cgroup. After
// that the task's directory is there for some milliseconds at least, and with it
// what the task has used; its removal is told when it is gone.
//
// A pid that another process has by now, in the moment between the list and
// pidfd_open(2), would make the task be looked at late, no more.
type exits struct {
	fd     int  // epoll; -1 where it is not to be had
	off    bool // no process can be waited for
	events [32]unix.EpollEvent
	pids   []int // of the task that is looked at
}

// newExits returns one that tells nothing where the kernel cannot: pidfds can be
// waited for since Linux 5.3.
func newExits() exits {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		fd = -1
	}
	return exits{fd: fd, off: fd < 0}
}

func (e *exits) close() {
	if e.fd >= 0 {
		_ = unix.Close(e.fd)
	}
	e.fd, e.off = -1, true
}

// add waits for the end of a process from now on. The descriptor is that of the
// process, to be closed by whoever was told; -1 where the process is gone, or where
// an old kernel, a container or a limit does not let it be watched.
func (e *exits) add(pid int) (pidfd int) {
	if e.off {
		return -1
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		e.off = !errors.Is(err, unix.ESRCH)
		return -1
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(pidfd)}
	if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, pidfd, &event); err != nil {
		e.off = true
		_ = unix.Close(pidfd)
		return -1
	}
	return pidfd
}

// isProcs says whether a notice is of a list of processes that somebody wrote to:
// a process has come to the task.
func isProcs(n notice) bool {
	return n.modified() && filepath.Base(n.dir) == "cgroup.procs"
}

// members lists the processes of a task, or those in a step's directory itself, in
// j.exits.pids. It is false where they cannot be listed.
func (j *Job) members(g *group) (ok bool) {
	if g.in == nil {
		for _, t := range j.trees {
			own := slices.ContainsFunc(t.nodes, func(n *node) bool { return n.own == g })
			if own && len(t.controllers) > 0 && (g.in == nil || rank(t.controllers[0]) < rank(g.in.controllers[0])) {
				g.in = t
			}
		}
	}
	j.exits.pids = j.exits.pids[:0]
	if g.in == nil {
		return false
	}
	var list pidList
	for _, n := range g.in.nodes {
		if n.own == g || n.task == g {
			ok = g.in.list(n, j.buf.ready(), &list, &j.exits.pids) || ok
		}
	}
	if !ok {
		g.in = nil
	}
	return ok
}

// came takes note that a process was put into a task's directory.
func (j *Job) came(dir string) {
	for _, t := range j.trees {
		if i := t.find(dir); i >= 0 {
			n := t.nodes[i]
			if n.own == nil { // it was nobody's until now
				j.regroup(t, n)
			}
			j.process(t, n)
			g := n.own
			if g == nil {
				continue
			}
			if g.step != nil && !g.met {
				g.step.mixed = g.step.mixed || j.members(g.step) && len(j.exits.pids) > 0
			}
			if g.step != nil {
				g.step.final = false
			}
			g.met, g.final, g.looks = true, false, max(g.looks, 1)
			j.meet(g)
		}
	}
}

// meet has the end of one of a task's processes told, if none is waited for. A task
// whose processes have all ended is read.
func (j *Job) meet(g *group) {
	for before := 0; g.looks > 0 && g.exit < 0 && !g.final && g.r.Task.Valid(); {
		g.looks--
		if !j.members(g) {
			return
		}
		if len(j.exits.pids) == 0 {
			j.finish(g)
			return
		}
		g.met = true
		if j.exits.pids[0] == before { // it has not ended and cannot be waited for: another pid namespace's
			return
		}
		before = j.exits.pids[0]
		for _, pid := range j.exits.pids[:min(len(j.exits.pids), 4)] {
			if g.exit = j.exits.add(pid); g.exit >= 0 {
				return
			}
		}
		if j.exits.off {
			return
		}
	}
}

// finish reads a task of which no process is left, in all hierarchies.
func (j *Job) finish(g *group) {
	if !g.met { // slurmstepd has made the directory and put no process there yet
		g.in = nil // it may be in another hierarchy
		return
	}
	if !g.merged {
		j.pair(g.r.Step, false)
	}
	if g.into != nil { // which is told of it too, if it still waits for a process
		j.meet(g.into)
		return
	}
	g.final = g.read(&j.part, &j.buf)
	j.finishStep(g.step)
}

// finishStep reads a step whose tasks have all ended, and the job. A directory that its
// process has left for another one's waits for none.
func (j *Job) finishStep(step *group) {
	if step == nil || step.final || slices.ContainsFunc(j.groups, func(g *group) bool { return g.step == step && g.met && !g.final && !g.gone }) {
		return
	}
	step.final = step.read(&j.part, &j.buf)
	j.take()
}

// exited reads the tasks of which a process has ended.
func (j *Job) exited() {
	if j.exits.fd < 0 {
		return
	}
	n, _ := unix.EpollWait(j.exits.fd, j.exits.events[:], 0) // interrupted: it is told again
	for _, e := range j.exits.events[:max(n, 0)] {
		if j.eventTold(int(e.Fd)) {
			continue
		}
		i := slices.IndexFunc(j.groups, func(g *group) bool { return g.exit == int(e.Fd) })
		if i < 0 {
			_ = unix.EpollCtl(j.exits.fd, unix.EPOLL_CTL_DEL, int(e.Fd), nil)
			continue
		}
		g := j.groups[i]
		g.unwatch()
		j.meet(g)
		if !g.final {
			g.read(&j.part, &j.buf)
		}
	}
}
