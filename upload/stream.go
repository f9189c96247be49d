package upload

import (
	"context"
	"fmt"
	"time"
)

// warnAfter is the number of failures in a row after which a stream warns (section 9.2.2).
const warnAfter = 3

// Stream delivers one run while its tracker writes it. The steps and the ledger are Drain's, so a
// later Drain can continue the delivery. Rows that cannot be sent stay in the spool. Only one
// goroutine at a time may use a Stream.
type Stream struct{ r *delivery }

// NewStream returns a Stream. It uses the options BatchRows, Tries and Scope.
func NewStream(client Client, putter Putter, opts DrainOptions) *Stream {
	d := newDrainer(client, putter, opts, func(error) {})
	return &Stream{r: newDelivery(d, "", false, newBuffers())}
}

// Start registers the run, unless that is done.
func (s *Stream) Start(ctx context.Context, run Spooled) error {
	s.r.setSpooled(run)
	return s.r.register(ctx)
}

// Sync registers the run if Start failed, and uploads all rows that are in the spool and
// not at the receiver.
func (s *Stream) Sync(ctx context.Context, run Spooled) error {
	s.r.setSpooled(run)
	return s.r.doRegistered(ctx, s.r.upload.uploadBatches)
}

// Finish delivers the rest of the ended run and closes it at the receiver. A short run without
// uploads is sent inline. After an error the run waits in the spool for the next Drain.
func (s *Stream) Finish(ctx context.Context, run Spooled) error {
	s.r.setSpooled(run)
	s.r.upload.mayInline = true
	return s.r.deliver(ctx)
}

// Problems returns the notes on a delivery that succeeded.
func (s *Stream) Problems() []Problem { return s.r.d.sum.Problems }

// Run starts the run and syncs it at the given interval until ctx is done. It calls warn
// when the first registration fails, and when uploads have failed three times in a row, and
// continues to retry.
func (s *Stream) Run(ctx context.Context, run Spooled, every time.Duration, warn func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	if err := s.Start(ctx, run); err != nil && ctx.Err() == nil {
		warn(fmt.Errorf("the run is not registered; its data is kept, the next attempt is in %s: %w", every, err))
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
			warn(fmt.Errorf("uploads failed %d times in a row; the data is kept, the next attempt is in %s: %w", failures, every, err))
		}
	}
}
