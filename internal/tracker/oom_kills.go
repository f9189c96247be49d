package tracker

import (
	"strconv"
	"sync/atomic"

	"github.com/resource-tracker/rt"
)

// OOMKills is the sink that counts the processes which the kernel killed for their
// memory: all of a step of srun, which begins with its tracker, and otherwise those of
// the job since the first reading. Step must be set before the first Put.
type OOMKills struct {
	Step          string
	first, newest atomic.Uint64
	seen          bool
}

// Put implements collect.Sink.
func (k *OOMKills) Put(s *rt.Snapshot) error {
	if _, err := strconv.ParseUint(k.Step, 10, 32); err == nil {
		for i := range s.Steps {
			if r := &s.Steps[i]; r.Step == k.Step && !r.Task.Valid() {
				k.newest.Store(max(k.newest.Load(), r.EventsOOMKill.Or(0)))
			}
		}
		return nil
	}
	n, ok := s.Job.EventsOOMKill.Get()
	if !ok {
		return nil
	}
	if !k.seen {
		k.first.Store(n)
		k.seen = true
	}
	k.newest.Store(n)
	return nil
}

// Count returns the number of killed processes.
func (k *OOMKills) Count() uint64 { return k.newest.Load() - k.first.Load() }
