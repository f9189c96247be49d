package main

import (
	"sync/atomic"

	"github.com/resource-tracker/rt"
)

// kills counts the processes of the job around us that the kernel has killed for
// their memory since the first reading.
type kills struct {
	first, newest atomic.Uint64
	seen          bool
}

// Put implements collect.Sink.
func (k *kills) Put(s *rt.Snapshot) error {
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
