package proc

import (
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Listed is a process that was read once.
type Listed struct {
	PID, PPID int
	PGRP      int            // process group; 0 of a kernel thread
	Comm      string         // /proc/<pid>/comm: at most 15 bytes, valid UTF-8
	State     byte           // /proc/<pid>/stat: 'R', 'S', 'Z', ...
	UID       rt.Opt[uint64] // real, /proc/<pid>/status
	Start     uint64         // ticks after boot, CLOCK_BOOTTIME

	// CPU time in ticks of USER_HZ: of all its threads, and of the children that it has
	// waited for and of theirs.
	OwnTicks, ChildTicks uint64

	RSS       uint64         // bytes, /proc/<pid>/stat
	DataStack rt.Opt[uint64] // bytes of virtual memory, VmData + VmStk of status; a kernel thread has none
	RSSAnon   rt.Opt[uint64] // bytes, RssAnon of status

	Cgroup string // /proc/<pid>/cgroup as it is; empty if it cannot be read
}

// List reads every process once. One that ends meanwhile is left out. List opens files
// and allocates for each process, and so is not for repeated readings.
func List(fs FS, visit func(*Listed)) error {
	dir := pidDir{file{path: fs.Proc}}
	pids, err := dir.list(nil)
	if err != nil {
		return err
	}
	var p peek
	for _, pid := range pids {
		if process, ok := p.look(fs.Proc, pid); ok {
			visit(&process)
		}
	}
	return dir.Close()
}

// look reads one process.
func (p *peek) look(root string, pid int) (l Listed, ok bool) {
	stat, err := p.stat(root, pid)
	if err != nil {
		return Listed{}, false
	}
	l = Listed{
		PID: pid, PPID: stat.PPID, PGRP: stat.PGRP, State: stat.State, Start: stat.Start, RSS: stat.RSS * pageSize, Comm: keep("", stat.Comm),
		OwnTicks: stat.Own[0] + stat.Own[1], ChildTicks: stat.Waited[0] + stat.Waited[1],
	}
	b, err := p.path(root).num(pid).str("/status").read()
	if err != nil {
		return Listed{}, false
	}
	parseStatus(b, &l)
	if b, err := p.path(root).num(pid).str("/cgroup").read(); err == nil {
		l.Cgroup = string(b)
	}
	return l, true
}

// parseStatus parses /proc/<pid>/status (proc_pid_status(5)). A field without a line is absent.
func parseStatus(b []byte, p *Listed) {
	var data, stack rt.Opt[uint64]
	for len(b) > 0 {
		key, n, ok, rest := procfile.Pair(b)
		b = rest
		if !ok {
			continue
		}
		switch string(key) {
		case "Uid:":
			p.UID.Set(n)
		case "VmData:":
			data = kibibytes(n)
		case "VmStk:":
			stack = kibibytes(n)
		case "RssAnon:":
			p.RSSAnon = kibibytes(n)
		}
	}
	if data.Valid() && stack.Valid() {
		p.DataStack.Set(data.Or(0) + stack.Or(0))
	}
}

func kibibytes(n uint64) rt.Opt[uint64] {
	if n > math.MaxUint64/4096 {
		return rt.None[uint64]()
	}
	return rt.Some(n * 1024)
}
