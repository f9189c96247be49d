package upload

import (
	"context"
	"fmt"
	"time"
)

// warnAfter is after how many failures in a row a stream says that it only keeps
// (section 9.2.2).
const warnAfter = 3

// Stream delivers one run while its tracker writes it, over the same steps and the
// same ledger as Drain: whatever it leaves, a later Drain goes on with. What cannot
// be sent stays in the spool. It is for one goroutine at a time.
type Stream struct{ r *delivery }

// NewStream returns a Stream. Of the options it takes BatchRows, Tries, MaxRetryAfter
// and Scope.
func NewStream(client Client, putter Putter, format Format, opts Options) (*Stream, error) {
	d := &drainer{client: client, putter: putter, format: format, opts: opts.withDefaults()}
	d.stop = func(error) {}
	d.api = d.endpoint("the endpoint "+client.Endpoint(), d.stop)
	d.store = d.endpoint("the object store", d.stop)
	buf, err := newBuffers()
	if err != nil {
		return nil, err
	}
	return &Stream{r: &delivery{d: d, buf: buf}}, nil
}

// Start registers the run, unless that was done before.
func (s *Stream) Start(ctx context.Context, run Spooled) error {
	s.r.use(run)
	return s.r.register(ctx)
}

// Sync registers the run where Start did not succeed, and uploads all rows that
// are in the spool and not at the receiver.
func (s *Stream) Sync(ctx context.Context, run Spooled) error {
	s.r.use(run)
	return s.r.registered(ctx, s.r.upload)
}

// Finish delivers what is left of the run, which has ended, and closes it at the
// receiver: inline where nothing was uploaded and it is short. The error says that
// the run waits in the spool for the next Drain.
func (s *Stream) Finish(ctx context.Context, run Spooled) error {
	s.r.use(run)
	s.r.mayInline = true
	return s.r.deliver(ctx)
}

// Run starts the run and syncs it at the given interval until ctx is done. warn is
// told when the run cannot be registered at first, and when uploads have failed
// three times in a row; trying goes on.
func (s *Stream) Run(ctx context.Context, run Spooled, every time.Duration, warn func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	if err := s.Start(ctx, run); err != nil && ctx.Err() == nil {
		warn(fmt.Errorf("the run is not registered; what is recorded is kept, and it is tried again every %s: %w", every, err))
	}
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := s.Sync(ctx, run)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			continue
		}
		failures++
		if failures == warnAfter {
			warn(fmt.Errorf("uploads failed %d times in a row; what is recorded is kept, and it is tried again every %s: %w", failures, every, err))
		}
	}
}
