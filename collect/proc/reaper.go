package proc

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// stepd is what Slurm's daemon of a step is called (/proc/<pid>/comm). It is no
// process of the job, but it collects the step's tasks when they end, and then its
// /proc/<pid>/io holds what they had read and written.
const stepd = "slurmstepd"

// reaper is a slurmstepd whose children are processes of the job.
type reaper struct {
	pid   int
	fd    int
	alive bool
	gone  bool     // it was no more when the walk began
	base  counters // when it was first seen: its own, and what ended before
	io    account  // of the walks
	late  counters // read since, at the end of a step
}

// reapers are read at other times than the job's processes: at the end of a step
// there are a few milliseconds before the daemon ends.
type reapers struct {
	mu   sync.Mutex
	list []reaper
	peek peek
}

// adopt takes in the process pid if it is a slurmstepd, and says whether it is
// known as one.
func (r *reapers) adopt(pid int, root string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if r.list[i].pid == pid && r.list[i].alive {
			return true
		}
	}
	if !r.isDaemon(pid, root) {
		return false
	}
	fd, err := r.peek.path(root).num(pid).str("/io").open(unix.O_RDONLY)
	if err != nil {
		return false
	}
	now, ok := r.look(fd)
	if !ok {
		_ = unix.Close(fd) // opened for reading: nothing can be lost
		return false
	}
	r.list = append(r.list, reaper{pid: pid, fd: fd, alive: true, base: now, io: account{now: now}, late: now})
	return true
}

// isDaemon tells a slurmstepd from its child that has not begun the task's program
// yet: that one has its name still, and will be a process of the job.
func (r *reapers) isDaemon(pid int, root string) bool {
	b, err := r.peek.path(root).num(pid).str("/stat").read()
	if err != nil || string(command(b)) != stepd {
		return false
	}
	stat, err := parsePidStat(b)
	if err != nil {
		return false
	}
	b, err = r.peek.path(root).num(stat.ppid).str("/stat").read()
	return err != nil || string(command(b)) != stepd
}

// drop forgets the process pid, which is one of the job.
func (r *reapers) drop(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(p reaper) bool {
		if p.pid != pid || !p.alive {
			return false
		}
		_ = unix.Close(p.fd)
		return true
	})
}

// meet takes in those of the processes that are slurmstepds.
func (r *reapers) meet(pids []int, root string) {
	for _, pid := range pids {
		r.adopt(pid, root)
	}
}

func (r *reapers) look(fd int) (counters, bool) {
	b, err := r.peek.again(fd)
	if err != nil {
		return counters{}, false
	}
	return parsePidIO(b)
}

// read notes what the reapers have collected by now. It is quick.
func (r *reapers) read() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAll()
}

func (r *reapers) readAll() {
	for i := range r.list {
		if p := &r.list[i]; p.alive {
			if now, ok := r.look(p.fd); ok {
				p.late = now
			} else {
				p.alive = false
			}
		}
	}
}

// begin starts a walk: what the reapers have collected by now counts in it, and
// nothing that they collect later.
func (r *reapers) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAll()
	for i := range r.list {
		p := &r.list[i]
		p.io.see(p.late)
		p.gone = !p.alive
	}
}

// of returns the account of the reaper pid that may have collected a process that
// is gone by now, or nil.
func (r *reapers) of(pid int) *account {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if p := &r.list[i]; p.pid == pid && (!p.gone || p.io.rise != counters{}) {
			return &p.io
		}
	}
	return nil
}

// settle ends a walk. It returns what nobody has collected and what the reapers
// that are gone had, what those that live have, and whether there was any.
func (r *reapers) settle() (past, present counters, any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	any = len(r.list) > 0
	living := r.list[:0]
	for _, p := range r.list {
		past.add(p.io.settle())
		sum := p.io.total()
		for k := range sum {
			sum[k] -= p.base[k]
		}
		if !p.gone {
			present.add(sum)
			living = append(living, p)
			continue
		}
		past.add(sum)
		_ = unix.Close(p.fd)
	}
	r.list = living
	return past, present, any
}

func (r *reapers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.list {
		_ = unix.Close(p.fd)
	}
	r.list = nil
}
