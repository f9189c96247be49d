package cgroup

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// slurmstepdCPU splits the CPU time of a job in v2 between the job's own processes and
// slurmstepd. The kernel counts both in the job's cgroup. Each step has one directory for
// slurmstepd and one for all other processes; both are read until the end of the step. Time
// in the job's cpu.stat that no step explains belongs to slurmstepd, which cleans up after
// the step. The process in the extern step that only waits for the job's end also counts as
// slurmstepd. For v1 and for a step isOn is not set.
//
// If a step's time was not read at its end, it is only in the job's cpu.stat, together with
// the time that slurmstepd used meanwhile. All of it is then counted as the job's. The same
// applies if no step has a directory for its own processes.
type slurmstepdCPU struct {
	isOn     bool
	procRoot string
	sleeper  externSleeper

	steps    []*stepCPU
	seenUser bool // a step had a directory of its own processes

	endedSteps  cpuTime // of the steps that were removed
	endedStepd  cpuTime
	unread      cpuTime // counted as the job's without a reading of a step
	missed      bool    // a step was removed with time that was not read
	estimated   int64   // added to unread because of missed, since the last TakeEstimate
	before      cpuTime // the job's total just before its steps were listed
	begun       bool    // a reading was taken
	unexplained cpuTime // of the total at the last reading

	own   cpuTime // as last returned: it never falls
	stepd int64
}

// stepCPU is the CPU time of one step.
type stepCPU struct {
	dir, userDir, daemonDir string
	isExtern                bool

	user   procfile.File // cpu.stat of userDir
	events procfile.File // cgroup.events of userDir
	pids   procfile.File // pids.current of userDir
	stepd  procfile.File // cpu.stat of daemonDir

	own       cpuTime
	daemon    cpuTime
	populated bool // a process was seen in userDir
	final     bool // own was read after the last process in userDir had ended
}

// EnterStep adds a directory of a step, in v2. If a file reports that the step's last
// process ended, EnterStep returns its path.
func (h *slurmstepdCPU) EnterStep(path string, d cgroupfs.Dir) (watch string, err error) {
	if !h.isOn {
		return "", nil
	}
	i := slices.IndexFunc(h.steps, func(s *stepCPU) bool { return s.dir == d.StepDir })
	if i < 0 {
		i = len(h.steps)
		h.steps = append(h.steps, &stepCPU{dir: d.StepDir, isExtern: d.Extern})
	}
	s := h.steps[i]
	cpu := filepath.Join(path, cpuStat)
	switch d.Part {
	case cgroupfs.PartUser:
		s.userDir, s.populated, s.final = path, false, false
		watch = filepath.Join(path, "cgroup.events")
		err = errors.Join(openFile(&s.user, cpu), openFile(&s.events, watch), openFile(&s.pids, filepath.Join(path, "pids.current")))
		h.seenUser = h.seenUser || s.user.IsOpen()
	case cgroupfs.PartDaemon:
		s.daemonDir = path
		err = openFile(&s.stepd, cpu)
	}
	return watch, err
}

// LeaveStep closes the files of a removed directory and of all directories below it, and
// keeps their last values.
func (h *slurmstepdCPU) LeaveStep(path string) {
	h.steps = slices.DeleteFunc(h.steps, func(s *stepCPU) bool {
		isWhole := cgroupfs.IsBelow(s.dir, path)
		if isWhole || path == s.userDir {
			h.missed = h.missed || !s.final
			h.endedSteps = h.endedSteps.Plus(s.own)
			s.user.Retire()
			s.events.Retire()
			s.pids.Retire()
			s.user, s.events, s.pids, s.own, s.populated, s.final = procfile.File{}, procfile.File{}, procfile.File{}, cpuTime{}, false, true
		}
		if isWhole || path == s.daemonDir {
			h.endedStepd = h.endedStepd.Plus(s.daemon)
			s.stepd.Retire()
			s.stepd, s.daemon = procfile.File{}, cpuTime{}
		}
		return isWhole
	})
}

// MissStep records that a step may have begun and ended between two readings.
func (h *slurmstepdCPU) MissStep() { h.missed = true }

// TakeEstimate returns the CPU time in microseconds that was counted as the job's since the
// last call, although slurmstepd may have used some.
func (h *slurmstepdCPU) TakeEstimate() (n int64) {
	n, h.estimated = h.estimated, 0
	return n
}

// IsFrozen reports whether the resource manager has frozen a step (v2: frozen in
// cgroup.events, Linux 5.2). All steps of a suspended job are frozen. isRead is not set if
// no step shows it.
func (h *slurmstepdCPU) IsFrozen(buf *procfile.Buffer) (isFrozen, isRead bool) {
	for _, s := range h.steps {
		if s.isExtern || !s.events.IsOpen() {
			continue
		}
		if n, ok := readKey(&s.events, buf, "frozen"); ok {
			return n != 0, true
		}
	}
	return false, false
}

// close closes all files.
func (h *slurmstepdCPU) close() {
	h.sleeper.stat.Retire()
	for _, s := range h.steps {
		s.user.Retire()
		s.events.Retire()
		s.pids.Retire()
		s.stepd.Retire()
	}
}

// read reads the step's files. It returns false if the step ended without a last reading.
func (s *stepCPU) read(buf *procfile.Buffer) bool {
	if s.user.IsOpen() {
		isEmpty := s.isEmpty(buf)
		t, ok := readCPUTime(&s.user, buf)
		switch {
		case ok:
			s.own, s.final = s.own.most(t), isEmpty
		case !s.final:
			s.final = true
			return false
		}
	}
	if t, ok := readCPUTime(&s.stepd, buf); ok {
		s.daemon = s.daemon.most(t)
	}
	return true
}

// isEmpty reports whether the step had processes and all have ended.
func (s *stepCPU) isEmpty(buf *procfile.Buffer) bool {
	n, ok := readKey(&s.events, buf, "populated")
	s.populated = s.populated || n != 0
	return ok && n == 0 && s.populated
}

// split replaces the job's total in r, read from cpu.stat, by the time of the job's own
// processes, and sets the time of slurmstepd. The steps are read after the total.
func (h *slurmstepdCPU) split(r *rt.JobReading, cpu *procfile.File, buf *procfile.Buffer) {
	if !h.isOn || !r.CPUUsage.Valid() {
		return // the steps were removed before their job
	}
	total := cpuTimeOf(r.CPUUsage, r.CPUUser, r.CPUSystem)
	own, daemon := h.endedSteps, h.endedStepd
	for _, s := range h.steps {
		if !s.read(buf) {
			h.missed = true
		}
		own = own.Plus(s.own)
		daemon = daemon.Plus(s.daemon)
		if s.user.IsOpen() && s.isExtern {
			h.sleeper.read(h.procRoot, s.userDir, s.own, buf)
		}
	}
	own = own.Minus(h.sleeper.used).clamped()
	daemon = daemon.Plus(h.sleeper.used)
	h.splitUnexplained(total, own, daemon, cpu, buf)
	h.own = h.own.most(own.Plus(h.unread))
	r.CPUUsage.Set(uint64(h.own.Usage))
	if r.CPUUser.Valid() && r.CPUSystem.Valid() {
		r.CPUUser.Set(uint64(h.own.User))
		r.CPUSystem.Set(uint64(h.own.System))
	}
	if h.seenUser || daemon.Usage > 0 {
		h.stepd = max(h.stepd, daemon.Usage, total.Usage-own.Usage-h.unread.Usage)
		r.StepdCPUUsage.Set(uint64(h.stepd))
	}
}

// leaveOutThreads sets the threads in r to the threads of the job's own processes. r has
// them from the job's pids.current, which includes up to 20 threads of each slurmstepd.
// Slurm enables a controller for all parts of a step or for none.
func (h *slurmstepdCPU) leaveOutThreads(r *rt.JobReading, buf *procfile.Buffer) {
	if !h.seenUser || !r.Threads.Valid() {
		return
	}
	var sum uint64
	for _, s := range h.steps {
		if !s.user.IsOpen() {
			continue
		}
		n, ok := readNumber(&s.pids, buf)
		if !ok {
			r.Threads.Clear()
			return
		}
		sum += n
	}
	r.Threads.Set(sum)
}

// SleeperCPU returns the CPU time of the process that Slurm keeps in the extern step. It is not
// part of the job's CPU time.
func (h *slurmstepdCPU) SleeperCPU() cpuTime { return h.sleeper.used }

// splitUnexplained splits the part of the total that no step reading explains.
func (h *slurmstepdCPU) splitUnexplained(total, own, daemon cpuTime, cpu *procfile.File, buf *procfile.Buffer) {
	known := own.Plus(daemon)
	isTooMuch := known.Usage+h.unread.Usage > total.Usage
	switch {
	case !h.seenUser:
		h.unread = total.Minus(daemon).clamped()
	case !h.begun: // used before the first reading, by steps that were removed
		h.unread = h.unread.Plus(h.before.Minus(known).Minus(h.unread).clamped())
	case h.missed || isTooMuch:
		later := total
		if t, ok := readCPUTime(cpu, buf); ok {
			later = t
		}
		unexplained := later.Minus(known).Minus(h.unread)
		if h.missed {
			more := unexplained.Minus(h.unexplained).clamped()
			h.unread = h.unread.Plus(more)
			h.estimated += more.Usage
		} else if unexplained.Usage < 0 { // a step's time was counted as unread before
			h.unread = h.unread.Plus(cpuTime{Usage: unexplained.Usage}).clamped()
		}
	}
	h.missed = false
	h.begun = true
	h.unexplained = total.Minus(known).Minus(h.unread)
}

// readCPUTime reads a v2 file cpu.stat.
func readCPUTime(f *procfile.File, buf *procfile.Buffer) (t cpuTime, ok bool) {
	b, _ := readFile(f, buf)
	usage, ok := parseKey(b, "usage_usec")
	if !ok || usage > math.MaxInt64 {
		return cpuTime{}, false
	}
	user, _ := parseKey(b, "user_usec")
	system, _ := parseKey(b, "system_usec")
	return cpuTime{int64(usage), int64(user), int64(system)}, true
}

// externSleeper is the process that Slurm keeps in step_extern/user, so that the step lasts
// as long as the job. It is the oldest process of that step: other processes, such as an
// SSH session's, join the step later.
type externSleeper struct {
	stat     procfile.File // /proc/<pid>/stat: once open, it stays with the same process
	used     cpuTime
	lastStep cpuTime // of the step, when the process was read last
}

// read reads the CPU time of the process. It is at most the step's CPU time.
func (p *externSleeper) read(procRoot, userDir string, step cpuTime, buf *procfile.Buffer) {
	if step == p.lastStep {
		return // it sleeps
	}
	if !p.stat.IsOpen() && !p.stat.Retired() {
		p.find(procRoot, userDir)
	}
	p.lastStep = step
	if text, ok := readFile(&p.stat, buf); ok {
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
		pids = appendPIDs(pids, name)
	}
	oldest, start := 0, uint64(0)
	for _, pid := range pids {
		stat, err := procfile.ReadStat(procRoot, pid)
		_, ok := ownTime(&stat)
		isOldest := oldest == 0 || stat.Start < start
		if err == nil && ok && isOldest {
			oldest, start = pid, stat.Start
		}
	}
	if oldest != 0 {
		_ = p.stat.Open(filepath.Join(procRoot, strconv.Itoa(oldest), "stat")) // else it is tried again
	}
}

// ownTime returns the CPU time that a process used itself, or false if it is out of range.
func ownTime(s *procfile.Stat) (used cpuTime, ok bool) {
	const microsPerTick = 1_000_000 / rt.TicksPerSecond
	if max(s.Own[0], s.Own[1]) > 1<<43 {
		return cpuTime{}, false
	}
	used.User, used.System = int64(s.Own[0])*microsPerTick, int64(s.Own[1])*microsPerTick
	used.Usage = used.User + used.System
	return used, true
}
