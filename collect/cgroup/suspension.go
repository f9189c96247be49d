package cgroup

import "github.com/resource-tracker/rt"

// suspension is the time in which the resource manager had suspended the job: Slurm freezes all
// of its steps. The time between two readings counts if the job was frozen at both of them. So
// the total is a lower bound.
type suspension struct {
	isFrozen bool           // at the last reading
	at       int64          // boot time of the last reading, in nanoseconds
	total    rt.Opt[uint64] // microseconds; absent until the state could be read once
}

// add adds a reading of the state. isRead is false if the state could not be read.
func (s *suspension) add(isFrozen, isRead bool, boot int64) {
	if isRead {
		s.total.Set(s.total.Or(0))
	}
	if isFrozen && s.isFrozen && boot > s.at {
		s.total.Set(s.total.Or(0) + uint64(boot-s.at)/1000)
	}
	s.isFrozen, s.at = isFrozen && isRead, boot
}

// readSuspension adds a reading of the job at a boot time.
func (s *state) readSuspension(boot int64) {
	isFrozen, isRead := s.tasks.IsFrozen()
	if !isRead {
		isFrozen, isRead = s.files.IsFrozen(&s.buf)
	}
	s.suspension.add(isFrozen, isRead, boot)
}
