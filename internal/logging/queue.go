package logging

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maxQueued limits the messages that wait for a slow log.
const maxQueued = 64

// queue passes messages to one writer, in their order, without making callers wait: while
// the log is slow, the oldest are dropped and counted.
type queue struct {
	write func(message)
	more  chan struct{} // holds one token when there is something to do
	done  chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	waiting []message
	dropped int // since the writer last reported them
	closed  bool
}

func newQueue(write func(message)) *queue {
	q := &queue{write: write, more: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

func (q *queue) put(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == maxQueued {
		q.waiting = append(q.waiting[:0], q.waiting[1:]...)
		q.dropped++
	}
	q.waiting = append(q.waiting, m)
	q.wake()
}

// close ends the writer after the queued messages and reports whether that was in time.
func (q *queue) close(wait time.Duration) bool {
	q.mu.Lock()
	q.closed = true
	q.wake()
	q.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-q.done:
		return true
	case <-timer.C:
		return false
	}
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// run is the writer.
func (q *queue) run() {
	defer close(q.done)
	defer func() { _ = recover() }() // the log failed: the tracker continues without it
	for range q.more {
		for {
			m, ok, closed := q.next()
			if closed {
				return
			}
			if !ok {
				break
			}
			q.write(m)
		}
	}
}

// next returns the message to write now; the number of dropped messages comes first.
func (q *queue) next() (m message, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.dropped > 0:
		m = message{time.Now(), slog.LevelWarn, fmt.Sprintf("the log did not keep up: %d messages were dropped here", q.dropped)}
		q.dropped = 0
		return m, true, false
	case len(q.waiting) == 0:
		return m, false, q.closed
	}
	m = q.waiting[0]
	q.waiting = append(q.waiting[:0], q.waiting[1:]...)
	return m, true, false
}
