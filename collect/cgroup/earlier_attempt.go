package cgroup

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// earlier holds what the job's directories had counted before the job began. The resource manager
// can leave the directory of one attempt of a job behind, for example if it was not empty in time.
// The next attempt of the job uses the directory again, and its counters continue.
type earlier struct {
	base rt.JobReading // counters and peaks; without any figure if the directories are new
	peak uint64        // v2: the most memory in use since base was read, in bytes
}

// leaveOutEarlier subtracts from later readings what the job's directories have counted so far, if
// they have no process. If the job may have begun, the counts may be its own, and nothing is
// subtracted. If an earlier attempt may then have used the directories, the ledger says so.
func (s *state) leaveOutEarlier(o *Options) {
	_, dir, isFound := s.watch.Found()
	if !isFound {
		return
	}
	isBefore := o.HasBegun != nil && len(s.tasks.Daemons(s.tasks.Procs(nil))) == 0
	mayBeReused := o.MayBeReused != nil && o.MayBeReused(dir)
	if !isBefore && !mayBeReused {
		return
	}
	var r rt.JobReading
	s.files.Read(&r, &s.buf)
	s.tasks.Read(&r)
	if r.CPUUsage.Or(0)+r.StepdCPUUsage.Or(0)+r.MemPeak.Or(0) == 0 {
		return
	}
	counted := fmt.Sprintf("cpu_usec=%d memory_peak_bytes=%d", r.CPUUsage.Or(0), r.MemPeak.Or(0))
	if !isBefore || o.HasBegun() {
		if mayBeReused {
			s.Note(rt.Event{Kind: "job", Name: "earlier attempt", Status: "estimated",
				Detail: "the job's cgroup existed before it could be read, and an earlier attempt of the job may have used it: the job's figures include all that was counted until then, " + counted})
		}
		return
	}
	s.base.CarryOver(&r, rt.Counter|rt.Peak)
	for _, g := range s.tasks.List() {
		g.LeaveOutEarlier(&s.buf)
	}
	s.pressure.SetEarlier(r.EventsOOMKill.Or(0), r.EventsMax.Or(0))
	s.Note(rt.Event{Kind: "job", Name: "earlier attempt", Status: "ok",
		Detail: "the job's cgroup existed before the job began; its counters at that time are not counted as the job's: " + counted + "; a peak is absent until it is exceeded"})
}

// leaveOut subtracts base from r. If the peak of memory is not higher than the earlier one, the
// job's own peak is unknown. A kernel that can reset memory.peak reports it nevertheless.
func (e *earlier) leaveOut(r *rt.JobReading) {
	hasPeak := e.base.MemPeak.Valid()
	r.SubtractEarlier(&e.base)
	if n, ok := r.MemIntervalPeak.Get(); ok && hasPeak {
		e.peak = max(e.peak, n)
		r.MemPeak.Set(max(e.peak, r.MemPeak.Or(0)))
	}
}
