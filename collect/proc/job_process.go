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
	located   bool // no more attempts to find step and task are needed
	looks     int  // readings of its cgroup

	own      counters // user and system time, USER_HZ
	cpu      uint64   // ticks: own, and of the children that it has waited for
	used     uint64   // ticks since the previous reading
	threads  uint64
	rss      uint64 // pages
	io       processCounter
	ioRead   bool // io was read
	isDenied bool // io may not be read
	switches counters
	pss      rt.Opt[uint64] // of this reading

	held   bool // the files are open, unless opening them failed
	stat   procfile.File
	ioFile procfile.File
	status procfile.File
}

// hold opens the process's files. One that cannot be opened is read by its path each time.
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

// text reads one of the process's files: f if it is open, else by its path.
func (p *jobProcess) text(names *peek, root, name string, f *procfile.File) ([]byte, error) {
	if !f.IsOpen() {
		return names.path(root).num(p.pid).str(name).read()
	}
	return names.buf.Read(f)
}

// refresh reads the process again and reports whether it exists.
func (p *jobProcess) refresh(names *peek, root string) (alive bool) {
	p.isDenied = false
	b, err := p.text(names, root, "/stat", &p.stat)
	if isUnread(err) {
		p.used = 0
		return p.alive
	}
	if err != nil {
		return false
	}
	now, err := parsePidStat(b)
	if err != nil || now.Start != p.start {
		return false
	}
	p.comm = keep(p.comm, now.Comm)
	used := now.Own[0] + now.Own[1]
	p.used = used - min(p.own[0]+p.own[1], used)
	p.cpu = used + now.Waited[0] + now.Waited[1]
	p.ppid, p.own, p.threads, p.rss = now.PPID, now.Own, now.Threads, now.RSS
	b, err = p.text(names, root, "/io", &p.ioFile)
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.isDenied = true
	case err == nil:
		if c, ok := parsePidIO(b); ok {
			p.io.update(c)
			p.ioRead = true
		}
	}
	b, err = p.text(names, root, "/status", &p.status)
	if err == nil {
		if c, ok := parseSwitches(b); ok {
			p.switches = c
		}
	}
	return true
}

// reading is the process as the snapshot shows it.
func (p *jobProcess) reading() rt.ProcessReading {
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
