package site

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlotsAreShared: a client that uses its share waits, and delays no other client.
func TestSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(4, 2)
		var order []string
		var mu sync.Mutex
		ask := func(name, client string, units int) {
			go func() {
				give := s.TakeUnits(t.Context(), client, units)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Second)
				give()
				give() // a second time is no change
			}()
			synctest.Wait()
		}
		for _, r := range []struct {
			name, client string
			units        int
		}{
			{"a1", "a", 1}, {"a2, more than its share", "a", 99}, {"a3, behind a2", "a", 1}, {"b1", "b", 1}, {"b2", "b", 1},
			{"c1", "c", 1}, {"d2, no room", "d", 2}, {"e1, behind d2", "e", 1},
		} {
			ask(r.name, r.client, r.units)
		}
		for range 4 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		want := []string{"a1", "b1", "b2", "c1", "a2, more than its share", "d2, no room", "a3, behind a2", "e1, behind d2"}
		if !slices.Equal(order[:4], want[:4]) || len(order) != len(want) || slices.Index(order, "a3, behind a2") < slices.Index(order, "a2, more than its share") {
			t.Errorf("%q", order)
		}
		if s.used != 0 || len(s.queue) != 0 || len(s.clients) != 0 {
			t.Errorf("%d in use, %d wait, %d clients", s.used, len(s.queue), len(s.clients))
		}
	})
}
