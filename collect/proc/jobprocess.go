package proc

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// jobProcess is what is kept of one process of the job.
type jobProcess struct {
	pid, ppid int
	start     uint64
	alive     bool
	comm      string
	step      string
	task      rt.Opt[uint64]
	placed    bool // step and task are known, or known not to be
	looks     int  // at its cgroup

	own      cpuTicks
	used     uint64 // ticks since the reading before
	threads  uint64
	rss      uint64 // pages
	io       account
	ioRead   bool // io was read
	switches counters
	quiet    int            // readings since switches was read, in which it did nothing to speak of
	pss      rt.Opt[uint64] // of this reading

	held   bool // the descriptors are open
	stat   int32
	ioFile int32
	status int32
}

// hold opens the process's files, to be read again with pread. A descriptor that
// cannot be had is -1, and its file is tried by its path.
func (p *jobProcess) hold(names *peek, root string) {
	p.held = true
	for _, f := range [...]struct {
		fd   *int32
		name string
	}{{&p.stat, "/stat"}, {&p.ioFile, "/io"}, {&p.status, "/status"}} {
		fd, err := names.path(root).num(p.pid).str(f.name).open(unix.O_RDONLY)
		if err != nil {
			fd = -1
		}
		*f.fd = int32(fd)
	}
}

func (p *jobProcess) release() {
	if !p.held {
		return
	}
	p.held = false
	for _, fd := range [...]int32{p.stat, p.ioFile, p.status} {
		if fd >= 0 {
			_ = unix.Close(int(fd)) // opened for reading: nothing can be lost
		}
	}
}

// text reads one of the process's files: over fd where it is held, else by its path.
func (p *jobProcess) text(names *peek, root, name string, fd int32) ([]byte, error) {
	if !p.held || fd < 0 {
		return names.path(root).num(p.pid).str(name).read()
	}
	return names.again(int(fd))
}

// refresh reads the process again and is false when it is gone. denied says that
// its bytes may not be read.
func (p *jobProcess) refresh(names *peek, root string) (alive, denied bool) {
	b, err := p.text(names, root, "/stat", p.stat)
	if unread(err) {
		p.used = 0
		return p.alive, false
	}
	if err != nil {
		return false, false
	}
	now, err := parsePidStat(b)
	if err != nil || now.start != p.start {
		return false, false
	}
	p.comm = keep(p.comm, command(b))
	p.used = now.own[0] + now.own[1] - min(p.own[0]+p.own[1], now.own[0]+now.own[1])
	p.ppid, p.own, p.threads, p.rss = now.ppid, now.own, now.threads, now.rss
	before := p.io.now
	switch b, err = p.text(names, root, "/io", p.ioFile); {
	case errors.Is(err, fs.ErrPermission):
		denied = true
	case err == nil:
		if c, ok := parsePidIO(b); ok {
			p.io.see(c)
			p.ioRead = true
		}
	}
	if p.used == 0 && p.io.now == before && p.quiet < quietMost {
		p.quiet++
		return true, denied
	}
	if b, err = p.text(names, root, "/status", p.status); err == nil {
		if c, ok := parseSwitches(b); ok {
			p.switches, p.quiet = c, 0
		}
	}
	return true, denied
}

// quietMost is how many readings in a row go without the status of a process that
// neither ran nor read nor wrote: it costs twice as much as all the rest.
const quietMost = 4

// reading is what the snapshot shows of the process.
func (p *jobProcess) reading(pageSize uint64) rt.ProcessReading {
	r := rt.ProcessReading{
		PID: uint64(p.pid), Start: p.start, Comm: p.comm, Step: p.step, Task: p.task,
		UserTicks: rt.Some(p.own[0]), SystemTicks: rt.Some(p.own[1]),
		RSS: rt.Some(p.rss * pageSize), PSS: p.pss, Threads: rt.Some(p.threads),
	}
	if p.ioRead {
		r.ReadBytes.Set(p.io.now[0])
		r.WriteBytes.Set(p.io.now[1])
	}
	return r
}
