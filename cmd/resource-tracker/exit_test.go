package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// faulty is a reader whose descriptor is a fault of ours.
type faulty struct{}

func (faulty) Write([]byte) (int, error) { panic("nil, perhaps") }
func (faulty) Close() error              { return nil }

// Section 11: a fault of ours ends in a message and not in a panic, and nobody waits
// for who had it.
func TestAFaultIsTold(t *testing.T) {
	told := make(chan error, 2)
	o := newOutlet(faulty{}, "x", func(err error) { told <- err })
	o.add([]byte("a\n"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = o.wait(ctx) // what it says of lines is tested elsewhere
	if ctx.Err() != nil {
		t.Fatal("the end waits for the outlet")
	}
	err := <-told
	for _, part := range []string{"internal error", "nil, perhaps", "faulty.Write"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if len(told) != 0 {
		t.Errorf("and %d more", len(told))
	}
}
