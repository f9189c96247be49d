package layout

import "github.com/resource-tracker/rt"

// StepdSearch finds the slurmstepds of a run's job on this host repeatedly, one for each
// step. If several slurmds share the host, it also finds those of the other nodes. It reads
// the command line of another process a few times, because a slurmstepd has another name at
// its start, and then again after many searches, because pids are reused.
type StepdSearch struct {
	procRoot string
	run      *rt.Run

	searches  int
	seen, was []seenPID // in ascending order: of this search, of the one before
	stepds    []int
}

// seenPID is a process and the number of searches that read its command line in vain.
type seenPID struct{ pid, reads int32 }

const (
	maxReads      = 3   // of one process's command line
	searchesAgain = 100 // searches after which all command lines are read again
)

// NewStepdSearch returns a search below procRoot, "/proc".
func NewStepdSearch(procRoot string, run *rt.Run) *StepdSearch {
	return &StepdSearch{procRoot: procRoot, run: run}
}

// Among returns the job's slurmstepds among all processes of the host, which are in
// ascending order. The list is valid until the next call.
func (s *StepdSearch) Among(pids []int) []int {
	s.stepds = s.stepds[:0]
	id, ok := s.run.JobID.Get()
	if !ok {
		return nil
	}
	s.searches++
	if s.searches%searchesAgain == 0 {
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
			p.reads = known[0].reads
		}
		if p.reads < maxReads {
			if isJobsStepd(s.procRoot, pid, id, s.run.HetJobID) {
				s.stepds = append(s.stepds, pid)
			} else {
				p.reads++
			}
		}
		s.seen = append(s.seen, p)
	}
	return s.stepds
}
