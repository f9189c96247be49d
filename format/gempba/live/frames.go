package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Frames keeps what a GemPBA program of the job broadcasts: the newest line of each
// interval, and the last one. Samples show the sums of the newest line.
type Frames struct {
	from     Address
	interval time.Duration
	keep     func(rt.ForeignReport) error // nil for none
	warn     func(kind string, err error)

	kept    time.Time
	newest  *gempba.Envelope // that is not kept yet
	came    time.Time
	records gempba.Kept
	cancel  context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	totals *gempba.Totals // of the newest line; nil once they were returned
}

// The waits between two attempts to connect to the program, which may not exist at all.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// ReadFrames starts to read from the program at an address. keep stores a record; it may
// be nil. warn receives each kind of error once, on another goroutine.
func ReadFrames(from Address, interval time.Duration, keep func(rt.ForeignReport) error, warn func(error)) *Frames {
	f := &Frames{from: from, interval: interval, keep: keep, warn: onceEach(warn), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer close(f.done)
		defer recovery.Handle(func(err error) { warn(fmt.Errorf("no more frames of GemPBA are kept: %w", err)) })
		f.run(ctx)
	}()
	return f
}

// Stop keeps the last line and ends the reading. It must precede the end of the spool.
func (f *Frames) Stop() {
	f.cancel()
	<-f.done
}

// run reads until ctx is done, again from the start if the program is started again.
func (f *Frames) run(ctx context.Context) {
	defer f.flush()
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		if f.session(ctx) {
			pause = firstRetry
		}
		if !recovery.Pause(ctx, pause) {
			return
		}
	}
}

// session reads the lines of one connection. It reports whether one of them was valid.
func (f *Frames) session(ctx context.Context) (useful bool) {
	conn, err := f.from.Dial(ctx)
	if err != nil {
		return false // the program has not started yet, or has ended
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends Next
	defer conn.Close()
	defer f.flush() // the program's last totals, if it has ended
	d := gempba.NewDecoder(conn)
	for {
		e, err := d.Next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return useful
		case err != nil:
			f.warn("stream", fmt.Errorf("the connection to the GemPBA program at %s is closed: %w", f.from, err))
			return useful
		}
		f.setLine(e, time.Now())
		useful = true
	}
}

func (f *Frames) setLine(e *gempba.Envelope, now time.Time) {
	totals := e.Totals()
	f.mu.Lock()
	f.totals = &totals
	f.mu.Unlock()
	f.newest, f.came = e, now
	if f.kept.IsZero() || now.Sub(f.kept) >= f.interval {
		f.flush()
	}
}

// Sums returns the JSON of the sums of the newest line since the last call; nil for none.
func (f *Frames) Sums() ([]byte, error) {
	f.mu.Lock()
	totals := f.totals
	f.totals = nil
	f.mu.Unlock()
	if totals == nil {
		return nil, nil
	}
	return json.Marshal(totals)
}

// flush keeps the newest line, without its topology if that has not changed.
func (f *Frames) flush() {
	if f.newest == nil || f.keep == nil {
		return
	}
	e := *f.newest
	f.newest, f.kept = nil, f.came
	record, err := f.records.Record(e, f.came.UnixNano())
	if err == nil {
		err = f.keep(record)
	}
	if err != nil {
		f.records = gempba.Kept{} // the next line has the topology again
		f.warn("keep", fmt.Errorf("keep a line of GemPBA: %w", err))
	}
}

// onceEach returns a function that warns of the first error of each kind: readings repeat them.
func onceEach(warn func(error)) func(kind string, err error) {
	warned := map[string]bool{}
	return func(kind string, err error) {
		if !warned[kind] {
			warned[kind] = true
			warn(err)
		}
	}
}
