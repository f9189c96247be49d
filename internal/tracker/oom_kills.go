package main

import (
	"strconv"
	"sync/atomic"

	"github.com/resource-tracker/rt"
)

// kills counts the processes around us that the kernel has killed for their memory:
// of a step of srun all, for it began with us, and else those of the job since the
// first reading.
type kills struct {
	step          string
	first, newest atomic.Uint64
	seen          bool
}

// Put implements collect.Sink.
func (k *kills) Put(s *rt.Snapshot) error {
	if _, err := strconv.ParseUint(k.step, 10, 32); err == nil {
		for i := range s.Steps {
			if r := &s.Steps[i]; r.Step == k.step && !r.Task.Valid() {
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

func (k *kills) count() uint64 { return k.newest.Load() - k.first.Load() }
