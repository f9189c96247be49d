package site

import (
	"context"
	"slices"
	"sync"
)

// Slots shares a resource between clients. At most total units are in use at the same time, and at
// most each of them by one client. Requests of a client that has its share wait, and other clients'
// requests pass them. Otherwise they go in the order of arrival.
type Slots struct {
	total, each int

	mu      sync.Mutex
	used    int
	clients map[string]*share
	queue   []*waiter
	scan    uint64        // number of the current scan of the queue
	drained chan struct{} // closed when no unit is in use after End; nil before
}

// share is what one client uses. It exists while the client uses something or waits.
type share struct {
	used, waiting int
	full          uint64 // the scan that found this client's share in use
}

type waiter struct {
	client string
	units  int
	ready  chan struct{} // closed when the units are taken
}

// NewSlots returns slots with a number of units for all clients, and a number for each of them.
func NewSlots(total, each int) *Slots {
	return &Slots{total: total, each: each, clients: map[string]*share{}}
}

// TakeUnits takes units for a client, at most its share, and waits for them until the context ends.
// It returns the function that gives them back, which may be called more than once; nil if the
// context ended first.
func (s *Slots) TakeUnits(ctx context.Context, client string, units int) (give func()) {
	w := &waiter{client: client, units: max(1, min(units, s.each)), ready: make(chan struct{})}
	s.mu.Lock()
	c := s.clients[client]
	if c == nil {
		c = &share{}
		s.clients[client] = c
	}
	c.waiting++
	s.queue = append(s.queue, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.ready: // checked first: a request gets units that are free even if its context has ended
		return sync.OnceFunc(func() { s.give(w) })
	default:
	}
	select {
	case <-w.ready:
		return sync.OnceFunc(func() { s.give(w) })
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.queue, w)
	if at < 0 { // taken in this instant
		c.used -= w.units
		s.used -= w.units
	} else {
		s.queue = slices.Delete(s.queue, at, at+1)
		c.waiting--
	}
	s.forget(client, c)
	s.grant()
	return nil
}

func (s *Slots) give(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[w.client]
	c.used -= w.units
	s.used -= w.units
	s.forget(w.client, c)
	s.grant()
}

// grant gives free units to those that wait, in their order.
func (s *Slots) grant() {
	if s.drained != nil && s.used == 0 {
		close(s.drained)
		s.drained = nil
	}
	s.scan++
	kept := s.queue[:0]
	for i, w := range s.queue {
		c := s.clients[w.client]
		if c.full != s.scan && c.used+w.units > s.each {
			c.full = s.scan // its later requests wait too: a large one is not passed by small ones
		}
		if c.full == s.scan {
			kept = append(kept, w)
			continue
		}
		if s.used+w.units > s.total {
			kept = append(kept, s.queue[i:]...)
			break
		}
		c.used += w.units
		c.waiting--
		s.used += w.units
		close(w.ready)
	}
	clear(s.queue[len(kept):])
	s.queue = kept
}

func (s *Slots) forget(client string, c *share) {
	if c.used == 0 && c.waiting == 0 {
		delete(s.clients, client)
	}
}

// End lets no request take units from now on, and waits until all units are given back; it
// returns false if the context ends first.
func (s *Slots) End(ctx context.Context) bool {
	drained := make(chan struct{})
	s.mu.Lock()
	s.total = 0
	s.drained = drained
	s.grant()
	s.mu.Unlock()
	select {
	case <-drained:
		return true
	case <-ctx.Done():
		return false
	}
}
