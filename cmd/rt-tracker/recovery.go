package main

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
)

// survive is deferred at the top of a goroutine: a fault of ours ends what it was
// doing and nothing else. What was read until then is committed.
func (t *tracker) survive(doing string) {
	p := recover()
	if p == nil {
		return
	}
	fault := fmt.Errorf("a fault of rt-tracker ended the %s, please report it: %v", doing, p)
	t.log.Error(t.subject, fmt.Errorf("%w\n%s", fault, debug.Stack()))
	t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "fault", Status: "failed", Detail: fault.Error()})
	if err := t.writer.Flush(); err != nil {
		t.log.Warning(t.subject, err.Error())
	}
}

// aside runs f beside the recording.
func (t *tracker) aside(all *sync.WaitGroup, doing string, f func()) {
	all.Go(func() {
		defer t.survive(doing)
		f()
	})
}

// awaited waits for all, at most for a time.
func awaited(all *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // there is nothing but to go on
		all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}
