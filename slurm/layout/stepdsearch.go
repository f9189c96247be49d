package layout

import "github.com/resource-tracker/rt"

// StepdSearch finds the slurmstepds of a run's job on this host time and again, one
// for each of its steps. Where several slurmds share a host, those of its other
// nodes are among them. The command line of a process that has none of a slurmstepd
// is read a few times, because one has another name at its start, and then again
// after many searches, when another process may have its pid.
type StepdSearch struct {
	procRoot string
	run      *rt.Run

	searches  int
	seen, was []seenPID // in ascending order: in this search, in the one before
	stepds    []int
}

// seenPID is a process and at how many searches it was no slurmstepd of the job.
type seenPID struct{ pid, looks int32 }

const (
	stepdLooks = 3   // searches at which a process is looked at
	stepdAnew  = 100 // searches after which all are looked at again
)

// NewStepdSearch returns a search below procRoot, "/proc".
func NewStepdSearch(procRoot string, run *rt.Run) *StepdSearch {
	return &StepdSearch{procRoot: procRoot, run: run}
}

// Among returns the job's slurmstepds among all processes of the host, which are
// given in ascending order. The list is good until the next call.
func (s *StepdSearch) Among(pids []int) []int {
	s.stepds = s.stepds[:0]
	id, ok := s.run.JobID.Get()
	if !ok {
		return nil
	}
	if s.searches++; s.searches%stepdAnew == 0 {
		s.seen = s.seen[:0]
	}
	s.was, s.seen = s.seen, s.was[:0]
	known := s.was
	for _, pid := range pids {
		for len(known) > 0 && int(known[0].pid) < pid {
			known = known[1:]
		}
		p := seenPID{pid: int32(pid)}
		if len(known) > 0 && known[0].pid == p.pid {
			p.looks = known[0].looks
		}
		if p.looks < stepdLooks {
			if isJobsStepd(s.procRoot, pid, id, s.run.HetJobID) {
				s.stepds = append(s.stepds, pid)
			} else {
				p.looks++
			}
		}
		s.seen = append(s.seen, p)
	}
	return s.stepds
}
