package collect

import (
	"time"

	"github.com/resource-tracker/rt"
)

// freshCandidate is how old the job's newest reading may be for the last snapshot
// to carry its time: a job's end is announced some ten milliseconds after it.
const freshCandidate = time.Second

// readJob reads the job into s. What it says becomes the candidate for the job's
// last reading, with what an earlier one had and this one has no more: the
// controllers of a job vanish one after another. The caller holds r.mu.
func (r *Recorder) readJob(s *rt.Snapshot) error {
	err := read(r.o.Job, s)
	if s.Job.Phase != rt.JobPresent {
		return err
	}
	r.earlier = r.candidate.Job
	r.candidate.Job, r.candidate.Wall, r.candidate.Boot = s.Job, s.Wall, s.Boot
	r.candidate.Job.CarryOver(&r.earlier, rt.AnyKind)
	return err
}

// readCandidate reads the job alone. What fails is not reported: the next
// snapshot does that.
func (r *Recorder) readCandidate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(&r.spare, rt.ReasonLast)
	_ = r.readJob(&r.spare)
}

// complete puts the job's newest reading into the snapshot of its end, which was
// taken when little or nothing was left of the job, and with it the time of that
// reading where no snapshot has it yet.
func (r *Recorder) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, s := &r.candidate, &r.snap
	if c.Job.Phase != rt.JobPresent {
		return // it was never there to be read
	}
	s.Job.CarryOver(&c.Job, rt.AnyKind)
	if s.Job.Phase == rt.JobPresent {
		return // it is still there: its time is now
	}
	s.Job.Phase = rt.JobPresent
	if c.Boot > r.written && s.Boot-c.Boot <= int64(freshCandidate) {
		s.Wall, s.Boot = c.Wall, c.Boot
	}
}
