package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/resource-tracker/rt/internal/recovery"
)

// maxWaiting is how many lines wait for their reader: ten minutes of samples.
const maxWaiting = 600

// outlet writes the lines of samples on a goroutine of its own: a reader that is
// slow, or does not read at all, keeps nothing else waiting. Each line is one
// write(2), so that nobody reads half of it (section 12).
type outlet struct {
	to     io.WriteCloser
	name   string      // of to, for messages
	failed func(error) // told once, when a line could not be written; nothing is written after that

	mu      sync.Mutex
	changed sync.Cond // waiting or ended
	waiting [][]byte  // in their order; the first one is being written
	spare   []byte    // the memory of a line that was written
	missed  int       // samples for which there was no room
	ended   bool      // no line will come
	broken  bool
	done    chan struct{} // closed when all is written, or broken
}

// newOutlet begins to write. It closes to in the end.
func newOutlet(to io.WriteCloser, name string, failed func(error)) *outlet {
	o := &outlet{to: to, name: name, failed: failed, done: make(chan struct{})}
	o.changed.L = &o.mu
	go o.run()
	return o
}

// room says whether a sample can be taken. One that cannot is counted.
func (o *outlet) room() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) < maxWaiting {
		return true
	}
	o.missed++
	return false
}

// add takes a copy of a line. After stop, or an error, it is passed over.
func (o *outlet) add(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.broken {
		return
	}
	o.waiting = append(o.waiting, append(o.spare[:0], line...))
	o.spare = nil
	o.changed.Signal()
}

func (o *outlet) run() {
	defer close(o.done)
	defer recovery.Handle(o.failed)
	var err error
	for {
		line, ok := o.first()
		if !ok {
			break
		}
		if _, err = o.to.Write(line); err != nil {
			break
		}
		o.written(line)
	}
	if e := o.to.Close(); err == nil {
		err = e
	}
	if err != nil {
		o.mu.Lock()
		o.broken, o.waiting = true, nil
		o.mu.Unlock()
		o.failed(fmt.Errorf("write a sample to %s: %w", o.name, err))
	}
}

// first waits for a line. It is false at the end.
func (o *outlet) first() ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) == 0 && !o.ended {
		o.changed.Wait()
	}
	if len(o.waiting) == 0 {
		return nil, false
	}
	return o.waiting[0], true
}

func (o *outlet) written(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spare = line
	n := copy(o.waiting, o.waiting[1:])
	o.waiting[n] = nil
	o.waiting = o.waiting[:n]
}

// stop says that no line will come. What waits is written still.
func (o *outlet) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.changed.Signal()
}

// wait stops and waits until all is written, or ctx is done. The error says what
// the reader did not take in time.
func (o *outlet) wait(ctx context.Context) error {
	o.stop()
	select {
	case <-o.done:
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.missed + len(o.waiting); n > 0 && !o.broken {
		return fmt.Errorf("%d lines were not written to %s: whoever reads it is too slow", n, o.name)
	}
	return nil
}

// unclosed stays open: it is not ours.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }
