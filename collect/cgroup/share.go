package cgroup

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// cpuTime is CPU time in microseconds: all of it, in user mode, in the kernel.
type cpuTime struct{ usage, user, system int64 }

func (t cpuTime) plus(o cpuTime) cpuTime {
	return cpuTime{t.usage + o.usage, t.user + o.user, t.system + o.system}
}

func (t cpuTime) minus(o cpuTime) cpuTime {
	return cpuTime{t.usage - o.usage, t.user - o.user, t.system - o.system}
}

// most is the greater of each.
func (t cpuTime) most(o cpuTime) cpuTime {
	return cpuTime{max(t.usage, o.usage), max(t.user, o.user), max(t.system, o.system)}
}

// within is t where that is not negative, its parts no more than the whole.
func (t cpuTime) within() cpuTime {
	usage := max(t.usage, 0)
	user := min(max(t.user, 0), usage)
	return cpuTime{usage, user, min(max(t.system, 0), usage-user)}
}

// cpuTime reads a v2 file cpu.stat.
func (s *scratch) cpuTime(f *file) (t cpuTime, ok bool) {
	b, _ := s.read(f)
	for len(b) > 0 {
		var key []byte
		var v uint64
		var number bool
		if key, v, number, b = cutPair(b); !number || v > math.MaxInt64 {
			continue
		}
		switch string(key) {
		case "usage_usec":
			t.usage, ok = int64(v), true
		case "user_usec":
			t.user = int64(v)
		case "system_usec":
			t.system = int64(v)
		}
	}
	return t, ok
}

// shares tells the CPU time of a job's own processes from slurmstepd's, which v2
// counts in the same job: each step_<x> has slurmstepd in slurm, and all else in
// user. So is a process in step_extern/user that only waits for the job's end.
// A step's time is read there to its end; what the job's own file has beyond
// that is slurmstepd's, which goes on cleaning up.
//
// Where nobody read what a step had at its end, the job's own file still has it,
// together with what slurmstepd used meanwhile: all of that is counted as the job's.
// So is all that is not in a step_<x>/slurm where no step has a user.
type shares struct {
	procRoot string
	keeper   placeholder // of the extern step

	steps []*stepShare
	seen  bool // whether a step's user ever was there

	ended      cpuTime // of the steps that are gone
	endedStepd cpuTime
	unread     cpuTime // of the job, though no step is known to have had it
	missed     bool    // a step is gone with time that was not read
	guessed    int64   // what was taken for the job's for that, since guess was asked
	before     cpuTime // the job's total just before its steps were listed
	begun      bool    // a reading was taken
	rest       cpuTime // of the total, what belonged to nobody known at the last reading

	own   cpuTime // as last told: never less than before
	stepd int64
}

// stepShare is one step's.
type stepShare struct {
	dir    string
	user   file // user/cpu.stat
	events file // user/cgroup.events
	stepd  file // slurm/cpu.stat

	own       cpuTime
	daemon    cpuTime
	populated bool // a process was seen in user
	final     bool // own was read after the last process in user had ended
}

// enter takes in a directory of the job. It returns the file that tells when a
// step's last process has ended, where path has one.
func (h *shares) enter(job, path string) (watch string, err error) {
	rel := strings.TrimPrefix(path[len(job):], "/")
	name, part, _ := strings.Cut(rel, "/")
	if !strings.HasPrefix(name, "step_") {
		return "", nil
	}
	dir := filepath.Join(job, name)
	i := slices.IndexFunc(h.steps, func(s *stepShare) bool { return s.dir == dir })
	if i < 0 {
		i = len(h.steps)
		h.steps = append(h.steps, &stepShare{dir: dir})
	}
	s := h.steps[i]
	switch part {
	case "user":
		s.populated, s.final = false, false
		watch = filepath.Join(path, "cgroup.events")
		err = errors.Join(s.user.tryOpen(filepath.Join(path, "cpu.stat")), s.events.tryOpen(watch))
		h.seen = h.seen || s.user.open
	case "slurm":
		err = s.stepd.tryOpen(filepath.Join(path, "cpu.stat"))
	}
	return watch, err
}

// leave closes the files of a directory that is gone, and keeps what they had.
func (h *shares) leave(path string) {
	h.steps = slices.DeleteFunc(h.steps, func(s *stepShare) bool {
		whole := below(s.dir, path)
		if whole || path == filepath.Join(s.dir, "user") {
			h.missed = h.missed || !s.final
			h.ended = h.ended.plus(s.own)
			s.user.close()
			s.events.close()
			s.user, s.events, s.own, s.populated, s.final = file{}, file{}, cpuTime{}, false, true
		}
		if whole || path == filepath.Join(s.dir, "slurm") {
			h.endedStepd = h.endedStepd.plus(s.daemon)
			s.stepd.close()
			s.stepd, s.daemon = file{}, cpuTime{}
		}
		return whole
	})
}

// close closes all files.
func (h *shares) close() {
	h.keeper.stat.close()
	for _, s := range h.steps {
		s.user.close()
		s.events.close()
		s.stepd.close()
	}
}

// read reads the step's files. It is false where the last of its time was missed.
func (s *stepShare) read(b *scratch) bool {
	if s.user.open {
		empty := s.empty(b)
		t, ok := b.cpuTime(&s.user)
		switch {
		case ok:
			s.own, s.final = s.own.most(t), empty
		case !s.final:
			s.final = true
			return false
		}
	}
	if t, ok := b.cpuTime(&s.stepd); ok {
		s.daemon = s.daemon.most(t)
	}
	return true
}

// empty says whether the step's processes have come and gone.
func (s *stepShare) empty(b *scratch) bool {
	text, ok := b.read(&s.events)
	if !ok {
		return false
	}
	n, ok := parseKey(text, "populated")
	s.populated = s.populated || n != 0
	return ok && n == 0 && s.populated
}

// read makes of the job's total, which r has from its file cpu.stat, the time of
// the job's own processes and slurmstepd's. The steps are read after the total.
func (h *shares) read(r *rt.JobReading, cpuStat *file, b *scratch) {
	if !r.CPUUsage.Valid() {
		return // the steps went before their job
	}
	total := cpuTime{int64(r.CPUUsage.Or(0)), int64(r.CPUUser.Or(0)), int64(r.CPUSystem.Or(0))}
	own, daemon := h.ended, h.endedStepd
	for _, s := range h.steps {
		if !s.read(b) {
			h.missed = true
		}
		own = own.plus(s.own)
		daemon = daemon.plus(s.daemon)
		if s.user.open && filepath.Base(s.dir) == "step_extern" {
			h.keeper.read(h.procRoot, s.dir, s.own, b)
		}
	}
	own = own.minus(h.keeper.used).within()
	daemon = daemon.plus(h.keeper.used)
	h.account(total, own, daemon, cpuStat, b)
	h.own = h.own.most(own.plus(h.unread))
	r.CPUUsage.Set(uint64(h.own.usage))
	if r.CPUUser.Valid() && r.CPUSystem.Valid() {
		r.CPUUser.Set(uint64(h.own.user))
		r.CPUSystem.Set(uint64(h.own.system))
	}
	if h.seen || daemon.usage > 0 {
		h.stepd = max(h.stepd, daemon.usage, total.usage-own.usage-h.unread.usage)
		r.StepdCPUUsage.Set(uint64(h.stepd))
	}
}

// account sets what of the total is the job's though it was not read of a step.
func (h *shares) account(total, own, daemon cpuTime, cpuStat *file, b *scratch) {
	known := own.plus(daemon)
	switch later := total; {
	case !h.seen:
		h.unread = total.minus(daemon).within()
	case !h.begun: // what was used before we came, by steps that were gone
		h.unread = h.unread.plus(h.before.minus(known).minus(h.unread).within())
	case h.missed || known.usage+h.unread.usage > total.usage:
		if t, ok := b.cpuTime(cpuStat); ok {
			later = t
		}
		beyond := later.minus(known).minus(h.unread) // of nobody known
		if h.missed {
			more := beyond.minus(h.rest).within()
			h.unread = h.unread.plus(more)
			h.guessed += more.usage
		} else if beyond.usage < 0 { // we had given it to the wrong one
			h.unread = h.unread.plus(cpuTime{usage: beyond.usage}).within()
		}
	}
	h.missed = false
	h.begun = true
	h.rest = total.minus(known).minus(h.unread)
}

// guess returns how much time was counted as the job's since it was asked last
// though slurmstepd may have used some of it.
func (h *shares) guess() int64 {
	n := h.guessed
	h.guessed = 0
	return n
}
