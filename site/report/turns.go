package report

import (
	"context"
	"sync"
)

// turns lets one report be made at a time. Of each reader only one request waits for it: a reader with many
// connections does not delay the others by all of them.
type turns struct {
	report chan struct{} // holds one value while a report is made

	mu      sync.Mutex
	readers map[string]*place
}

// place is where a reader's requests wait for each other. It exists while the reader has requests.
type place struct {
	front    chan struct{} // holds one value while a request of the reader waits for, or has, the report
	requests int
}

func newTurns() *turns { return &turns{report: make(chan struct{}, 1), readers: map[string]*place{}} }

// take waits for the turn of a reader until the context ends, whose error it returns. end ends the turn.
func (t *turns) takeTurn(ctx context.Context, reader string) (end func(), err error) {
	t.mu.Lock()
	p := t.readers[reader]
	if p == nil {
		p = &place{front: make(chan struct{}, 1)}
		t.readers[reader] = p
	}
	p.requests++
	t.mu.Unlock()
	if err := enter(ctx, p.front); err != nil {
		t.leave(reader, p)
		return nil, err
	}
	if err := enter(ctx, t.report); err != nil {
		<-p.front
		t.leave(reader, p)
		return nil, err
	}
	return func() {
		<-t.report
		<-p.front
		t.leave(reader, p)
	}, nil
}

// leave forgets a request of a reader.
func (t *turns) leave(reader string, p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.requests--
	if p.requests == 0 {
		delete(t.readers, reader)
	}
}

// enter fills a channel of one value, or returns the error of the context.
func enter(ctx context.Context, gate chan struct{}) error {
	select {
	case gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
