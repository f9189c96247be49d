package proc

import (
	"errors"
	"io/fs"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
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

	own      counters // user and system time, USER_HZ
	used     uint64   // ticks since the reading before
	threads  uint64
	rss      uint64 // pages
	io       account
	ioRead   bool // io was read
	switches counters
	quiet    int            // readings since switches was read, in which it did nothing to speak of
	pss      rt.Opt[uint64] // of this reading

	held   bool // the files are open, as far as they could be opened
	stat   procfile.File
	ioFile procfile.File
	status procfile.File
}

// hold opens the process's files, to be read again with pread. A file that cannot be
// opened is tried by its path at each reading.
func (p *jobProcess) hold(names *peek, root string) {
	p.held = true
	p.stat, _ = names.path(root).num(p.pid).str("/stat").open(0)
	p.ioFile, _ = names.path(root).num(p.pid).str("/io").open(0)
	p.status, _ = names.path(root).num(p.pid).str("/status").open(0)
}

func (p *jobProcess) release() {
	p.held = false
	for _, f := range [...]*procfile.File{&p.stat, &p.ioFile, &p.status} {
		_ = f.Close() // opened for reading: nothing can be lost
	}
}

// text reads one of the process's files: f where it is open, else by its path.
func (p *jobProcess) text(names *peek, root, name string, f *procfile.File) ([]byte, error) {
	if !f.IsOpen() {
		return names.path(root).num(p.pid).str(name).read()
	}
	return names.buf.Read(f)
}

// refresh reads the process again and is false when it is gone. denied says that
// its bytes may not be read.
func (p *jobProcess) refresh(names *peek, root string) (alive, denied bool) {
	b, err := p.text(names, root, "/stat", &p.stat)
	if unread(err) {
		p.used = 0
		return p.alive, false
	}
	if err != nil {
		return false, false
	}
	now, err := parsePidStat(b)
	if err != nil || now.Start != p.start {
		return false, false
	}
	p.comm = keep(p.comm, now.Comm)
	used := now.Own[0] + now.Own[1]
	p.used = used - min(p.own[0]+p.own[1], used)
	p.ppid, p.own, p.threads, p.rss = now.PPID, now.Own, now.Threads, now.RSS
	before := p.io.now
	switch b, err = p.text(names, root, "/io", &p.ioFile); {
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
	if b, err = p.text(names, root, "/status", &p.status); err == nil {
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
