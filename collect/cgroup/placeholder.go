package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/resource-tracker/rt"
)

// placeholder is the process that Slurm itself keeps in step_extern/user, so that
// the step lasts as long as the job. It is the oldest one there: what else comes
// into that step, a session of ssh, comes later.
type placeholder struct {
	known bool
	stat  file // /proc/<pid>/stat: once open it is never another process's
	used  cpuTime
	seen  cpuTime // what the step had used when the placeholder was read
}

// read takes what the placeholder has used of all that its step has.
func (p *placeholder) read(procRoot, step string, all cpuTime, b *scratch) {
	if all == p.seen {
		return // it sleeps
	}
	if !p.known {
		p.find(procRoot, filepath.Join(step, "user"))
	}
	p.seen = all
	if text, ok := b.read(&p.stat); ok {
		if t, _, ok := parseProcStat(text); ok {
			p.used = p.used.most(t)
		}
	}
	// It used some of it on its way to the step.
	p.used.user, p.used.system = min(p.used.user, all.user), min(p.used.system, all.system)
	p.used.usage = min(p.used.usage, all.usage)
}

// find opens the oldest process of a directory and those below it.
func (p *placeholder) find(procRoot, user string) {
	lists, _ := filepath.Glob(filepath.Join(user, "*/cgroup.procs")) // the pattern is right
	var oldest uint64
	var path string
	for _, name := range append(lists, filepath.Join(user, "cgroup.procs")) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it is gone
		}
		var list pidList
		var pids []int
		list.add(text, &pids)
		list.end(&pids)
		for _, pid := range pids {
			stat := filepath.Join(procRoot, strconv.Itoa(pid), "stat")
			text, err := os.ReadFile(stat)
			if err != nil {
				continue
			}
			if _, start, ok := parseProcStat(text); ok && (path == "" || start < oldest) {
				oldest, path = start, stat
			}
		}
	}
	if path != "" {
		p.known = p.stat.tryOpen(path) == nil && p.stat.open
	}
}

// parseProcStat parses proc(5) /proc/<pid>/stat: the time that a process has used
// itself, fields 14 and 15, and when it began, field 22 in ticks after boot.
func parseProcStat(b []byte) (used cpuTime, start uint64, ok bool) {
	const microsPerTick = 1_000_000 / rt.TicksPerSecond
	b = b[bytes.LastIndexByte(b, ')')+1:]
	var field []byte
	for i := 3; i <= 22; i++ {
		field, b = cutField(b)
		v, number := parseUint(field)
		switch i {
		case 14, 15:
			if !number || v > 1<<43 {
				return cpuTime{}, 0, false
			}
			used.user, used.system = used.system, int64(v)*microsPerTick
		case 22:
			start, ok = v, number
		}
	}
	used.usage = used.user + used.system
	return used, start, ok
}
