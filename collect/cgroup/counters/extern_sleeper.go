package counters

import (
	"path/filepath"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// externSleeper is the process that Slurm keeps in step_extern/user, so that the step
// lasts as long as the job. It is the oldest one there: what else comes into that step,
// an SSH session, comes later.
type externSleeper struct {
	stat     procfile.File // /proc/<pid>/stat: once open it is never another process's
	used     CPUTime
	lastStep CPUTime // of the step, when the process was read last
}

// read reads the CPU time that the process used of its step's.
func (p *externSleeper) read(procRoot, userDir string, step CPUTime, buf *procfile.Buffer) {
	if step == p.lastStep {
		return // it sleeps
	}
	if !p.stat.IsOpen() && !p.stat.Retired() {
		p.find(procRoot, userDir)
	}
	p.lastStep = step
	if text, ok := Read(&p.stat, buf); ok {
		if stat, ok := procfile.ParseStat(text); ok {
			used, _ := ownTime(&stat)
			p.used = p.used.most(used)
		}
	}
	// Part of that CPU time was used before the process joined the step.
	p.used.User, p.used.System = min(p.used.User, step.User), min(p.used.System, step.System)
	p.used.Usage = min(p.used.Usage, step.Usage)
}

// find opens the oldest process of a directory and those below it.
func (p *externSleeper) find(procRoot, userDir string) {
	lists, _ := filepath.Glob(filepath.Join(userDir, "*/cgroup.procs")) // the pattern is valid
	var pids []int
	for _, name := range append(lists, filepath.Join(userDir, "cgroup.procs")) {
		pids = AppendPIDs(pids, name)
	}
	oldest, start := 0, uint64(0)
	for _, pid := range pids {
		stat, err := procfile.ReadStat(procRoot, pid)
		isOldest := oldest == 0 || stat.Start < start
		if err != nil || !isOldest {
			continue
		}
		if _, ok := ownTime(&stat); ok {
			oldest, start = pid, stat.Start
		}
	}
	if oldest != 0 {
		_ = p.stat.Open(filepath.Join(procRoot, strconv.Itoa(oldest), "stat")) // else it is tried again
	}
}

// ownTime is the CPU time that a process used itself; false if it is out of range.
func ownTime(s *procfile.Stat) (used CPUTime, ok bool) {
	const microsPerTick = 1_000_000 / rt.TicksPerSecond
	if max(s.Own[0], s.Own[1]) > 1<<43 {
		return CPUTime{}, false
	}
	used.User, used.System = int64(s.Own[0])*microsPerTick, int64(s.Own[1])*microsPerTick
	used.Usage = used.User + used.System
	return used, true
}
