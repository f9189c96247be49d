package main

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
)

// recoverFrom is deferred at the top of a goroutine: a panic ends what the goroutine was
// doing and nothing else. What was read until then is committed.
func (t *jobTracker) recoverFrom(doing string) {
	p := recover()
	if p == nil {
		return
	}
	fault := fmt.Errorf("internal error, please report it; it ended the %s: %v", doing, p)
	t.log.Error(fmt.Sprintf("%v\n%s", fault, debug.Stack()))
	t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "fault", Status: "failed", Detail: fault.Error()})
	if err := t.writer.Flush(); err != nil {
		t.log.Warn(err.Error())
	}
}

// start runs f next to the recording.
func (t *jobTracker) start(all *sync.WaitGroup, doing string, f func()) {
	all.Go(func() {
		defer t.recoverFrom(doing)
		f()
	})
}

// waitAtMost waits for all, at most for a time.
func waitAtMost(all *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer recovery.Handle(func(error) {}) // the wait ends all the same
		all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}
