package collect

import (
	"time"

	"github.com/resource-tracker/rt"
)

// maxCandidateAge limits the age of the job's newest reading whose time the last snapshot
// takes over. A job's end is announced some ten milliseconds later.
const maxCandidateAge = time.Second

// readJob reads the job into s. The reading becomes the candidate for the job's final
// reading. It keeps the counters that only an earlier one had: the controllers of a job
// vanish one after another. The caller holds r.mu.
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

// readCandidate reads the job alone. The next snapshot reports its errors.
func (r *Recorder) readCandidate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(&r.spare, rt.ReasonLast)
	_ = r.readJob(&r.spare)
}

// complete adds the job's newest reading to the snapshot of its end, which was taken
// when little or nothing was left of the job. The snapshot also takes over the time of
// that reading, unless an earlier snapshot has it.
func (r *Recorder) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, s := &r.candidate, &r.snap
	if c.Job.Phase != rt.JobPresent {
		return // the job could never be read
	}
	s.Job.CarryOver(&c.Job, rt.AnyKind)
	if s.Job.Phase == rt.JobPresent {
		return // the job still exists: its time is now
	}
	s.Job.Phase = rt.JobPresent
	if c.Boot > r.written && s.Boot-c.Boot <= int64(maxCandidateAge) {
		s.Wall, s.Boot = c.Wall, c.Boot
	}
}
