package proc

import (
	"bytes"
	"errors"
)

// pidStat is what is read of /proc/<pid>/stat (proc_pid_stat(5)). Times are in USER_HZ.
type pidStat struct {
	state   byte
	ppid    int
	own     cpuTicks // utime, stime: of all its threads
	waited  cpuTicks // cutime, cstime: of the children that it has waited for, and theirs
	threads uint64
	start   uint64 // ticks after boot; tells apart two processes of the same pid
	rss     uint64 // pages
}

// cpuTicks are the user and the system time of something, in USER_HZ.
type cpuTicks [2]uint64

func (t *cpuTicks) add(o cpuTicks) {
	t[0] += o[0]
	t[1] += o[1]
}

var errPidStat = errors.New("not the stat of a process")

// parsePidStat reads the line. The command's name may hold blanks and parentheses:
// the last parenthesis ends it.
func parsePidStat(b []byte) (p pidStat, err error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 || bytes.IndexByte(b[:end], '(') < 0 {
		return p, errPidStat
	}
	state, rest := field(trim(b[end+1:]))
	if len(state) != 1 {
		return p, errPidStat
	}
	p.state = state[0]
	var v [4]uint64
	var ok [5]bool
	word, rest := field(rest) // field 4
	ppid, ok0 := number(word)
	ok[0] = ok0 && ppid < 1<<31
	p.ppid = int(ppid)
	rest, ok[1] = numbers(skip(rest, 9), v[:]) // fields 14 to 17
	p.own, p.waited = cpuTicks{v[0], v[1]}, cpuTicks{v[2], v[3]}
	word, rest = field(skip(rest, 2)) // field 20
	p.threads, ok[2] = number(word)
	word, rest = field(skip(rest, 1)) // field 22
	p.start, ok[3] = number(word)
	word, _ = field(skip(rest, 1)) // field 24
	p.rss, ok[4] = number(word)
	if ok != [5]bool{true, true, true, true, true} {
		return p, errPidStat
	}
	return p, nil
}

// command returns the name between the outer parentheses of a stat line: at most
// 15 bytes of what /proc/<pid>/comm shows.
func command(b []byte) []byte {
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to <= from {
		return nil
	}
	return b[from+1 : to]
}
