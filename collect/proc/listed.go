package proc

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Listed is a process that was read once.
type Listed struct {
	PID, PPID int
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
	l := listing{fs: fs, pageSize: uint64(unix.Getpagesize())}
	dir := newPIDDir(fs.Proc)
	pids, _, err := dir.list(nil)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if p, ok := l.look(pid); ok {
			visit(&p)
		}
	}
	return dir.Close()
}

type listing struct {
	fs       FS
	pageSize uint64
	peek     peek
}

func (l *listing) look(pid int) (Listed, bool) {
	stat, err := l.peek.stat(l.fs.Proc, pid)
	if err != nil {
		return Listed{}, false
	}
	p := Listed{
		PID: pid, PPID: stat.PPID, State: stat.State, Start: stat.Start, RSS: stat.RSS * l.pageSize, Comm: keep("", stat.Comm),
		OwnTicks: stat.Own[0] + stat.Own[1], ChildTicks: stat.Waited[0] + stat.Waited[1],
	}
	b, err := l.peek.path(l.fs.Proc).num(pid).str("/status").read()
	if err != nil {
		return Listed{}, false
	}
	parseStatus(b, &p)
	if b, err := l.peek.path(l.fs.Proc).num(pid).str("/cgroup").read(); err == nil {
		p.Cgroup = string(b)
	}
	return p, true
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
