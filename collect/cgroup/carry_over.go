package cgroup

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// readings are the job's.
type readings struct {
	fresh rt.JobReading // what is being read; here, so that no reading allocates it
	last  rt.JobReading // what was read last, with the totals of what was removed since
	past  rt.JobReading // totals of the job's cgroups that were removed
	earlier
	suspension
}

// lasting are the kinds of figures that keep their values when they can no longer be read.
const lasting = rt.Counter | rt.Peak | rt.Limit

// countedBy are the counters of a v1 controller.
func countedBy(controller string, j *rt.JobReading) []*rt.Opt[uint64] {
	return map[string][]*rt.Opt[uint64]{
		"cpuacct": {&j.CPUUsage, &j.CPUUser, &j.CPUSystem},
		"cpu":     {&j.CPUThrottled},
		"memory":  {&j.PageFaults, &j.MajorFaults, &j.EventsMax, &j.EventsOOMKill},
		"blkio":   {&j.IOReadBytes, &j.IOWriteBytes},
	}[controller]
}

// carryControllers keeps the counts of a v1 hierarchy when the job's directory vanishes
// from it and others are left. The next step may come before the others vanish, or one may
// stay.
func (r *readings) carryControllers(controllers []string) {
	for _, c := range controllers {
		last, past := countedBy(c, &r.last), countedBy(c, &r.past)
		for i := range last {
			addFigure(past[i], *last[i])
			last[i].Clear()
		}
		for _, v := range countedBy(c, &r.base) {
			v.Clear()
		}
		if p, ok := r.last.MemPeak.Get(); ok && c == "memory" {
			r.past.MemPeak.Set(max(r.past.MemPeak.Or(0), p))
		}
		if c == "memory" {
			r.base.MemPeak.Clear()
		}
	}
}

// carryJob keeps what was counted in a cgroup that was removed.
func (r *readings) carryJob() {
	r.last.AddEnded(&r.past)
	r.past = rt.JobReading{}
	r.past.CarryOver(&r.last, lasting)
	r.last, r.earlier = rt.JobReading{}, earlier{}
}

// ReadJob reads the job's cgroup into s.last.
func (s *state) ReadJob() {
	if s.toReopen > 0 {
		s.toReopen--
		s.reopen()
	}
	r := &s.fresh
	*r = rt.JobReading{}
	s.files.Read(r, &s.buf)
	s.tasks.Read(r)
	s.leaveOut(r)
	if r.CPUUsage.Valid() {
		s.tasks.IsEndMissed = false
	}
	r.CarryOver(&s.last, lasting)
	cpu := cpuFigures{Usage: &r.CPUUsage, User: &r.CPUUser, System: &r.CPUSystem}
	cpu.Balance(cpuTimeOf(s.last.CPUUsage, s.last.CPUUser, s.last.CPUSystem))
	s.last = *r
	if e, ok := s.pressure.LogKills(r, s.tasks.NewKills); ok {
		s.Note(e)
	}
	s.pressure.Update(r, s.tasks.DirOf("memory"))
	if n := s.files.TakeEstimate(); n > 0 {
		s.Note(rt.Event{Kind: "job", Name: "cpu", Status: "estimated",
			Detail: fmt.Sprintf("cpu_usec=%d of a step that was not read at its end: what slurmstepd used of it is counted as the job's", n)})
	}
}

// sleeperCPU is the CPU time in the extern step that is not the job's.
func (s *state) sleeperCPU() (t cpuTime) {
	if s.files != nil {
		t = s.files.SleeperCPU()
	}
	return t
}

// reopen opens files of the job's directories that did not exist before: a controller can
// be enabled after the directory was made.
func (s *state) reopen() {
	for _, root := range s.watch.Roots() {
		for _, c := range s.tasks.Controllers(root) {
			s.watchFailed(s.files.Open(c, root), false)
		}
	}
}

// readTotals reads the job, with what its removed cgroups had.
func (s *state) readTotals(snap *rt.Snapshot) error {
	if !s.isPresent() {
		snap.Job = s.past
		snap.Job.Phase, snap.Job.Suspended = s.phase, s.suspension.total
		return nil
	}
	s.ReadJob()
	s.logCPUSet()
	snap.Job = s.last
	s.files.ReadDone()
	snap.Job.AddEnded(&s.past)
	s.readSuspension(snap.Boot)
	snap.Job.Phase, snap.Job.Suspended = rt.JobPresent, s.suspension.total
	isRead := snap.Job.CPUUsage.Valid() || snap.Job.MemCurrent.Valid() || snap.Job.Pids.Valid()
	if s.err != nil && !isRead {
		return s.err
	}
	return nil
}
