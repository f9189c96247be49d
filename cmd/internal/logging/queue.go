package logging

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// maxQueued limits the messages that wait for a slow log.
const maxQueued = 64

// queue makes no caller wait: while the log is slow, the oldest messages are dropped and counted.
type queue struct {
	write   func(message)
	waiting chan message
	dropped atomic.Int64  // since the writer last reported them
	done    chan struct{} // closed when the writer has ended
}

func newQueue(write func(message)) *queue {
	q := &queue{write: write, waiting: make(chan message, maxQueued), done: make(chan struct{})}
	go q.run()
	return q
}

func (q *queue) putMessage(m message) {
	for {
		select {
		case q.waiting <- m:
			return
		default:
		}
		select {
		case <-q.waiting:
			q.dropped.Add(1)
		default: // the writer has taken one
		}
	}
}

// close ends the writer after the queued messages and reports whether that was in time.
func (q *queue) close(wait time.Duration) bool {
	late := time.After(wait)
	select {
	case q.waiting <- message{isEnd: true}:
	case <-q.done:
	case <-late:
		return false
	}
	select {
	case <-q.done:
		return true
	case <-late:
		return false
	}
}

// run is the writer.
func (q *queue) run() {
	defer close(q.done)
	defer func() { _ = recover() }() // the log failed: the tracker continues without it
	for m := range q.waiting {
		if m.isEnd {
			return
		}
		q.writeNext(m)
	}
}

// writeNext writes a message, after the number of those that were dropped before it.
func (q *queue) writeNext(m message) {
	if n := q.dropped.Swap(0); n > 0 {
		q.write(message{at: time.Now(), level: slog.LevelWarn, text: fmt.Sprintf("the log did not keep up: %d messages were dropped here", n)})
	}
	q.write(m)
}
