package main

import (
	"bytes"
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
	"github.com/resource-tracker/rt/internal/telemetry"
)

// frames keeps what a GemPBA program of the job broadcasts with the run: the newest
// line of each interval, and its last one. Samples have the sums of the newest line.
type frames struct {
	from     telemetry.Address
	interval time.Duration
	keep     func(rt.Record) error // nil without a spool
	warn     func(error)

	kept     time.Time
	newest   *gempba.Envelope // that is not kept yet
	came     time.Time
	topology []byte // of the newest line that was kept with one
	told     map[string]bool
	cancel   context.CancelFunc
	done     chan struct{}

	mu     sync.Mutex
	totals *gempba.Totals // of the newest line that no sample has had
}

// The waits between two tries to reach the program: it begins after us, may end
// before us, and may not be there at all.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// openFrames begins to ask for frames.
func (t *tracking) openFrames(s settings, warn func(error)) {
	f := &frames{from: *s.connect, interval: s.interval, warn: warn, told: map[string]bool{}, done: make(chan struct{})}
	switch {
	case t.writer != nil:
		f.keep = t.writer.Record
	case s.csv || !s.toStdout && s.output == "":
		warn(fmt.Errorf("gempba.connect: frames of %s are kept in a spool or shown in JSON samples, and there is neither; --spool DIR makes one", s.connect))
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer close(f.done)
		defer recovery.Handle(func(err error) { warn(fmt.Errorf("no more frames of GemPBA are kept: %w", err)) })
		f.run(ctx)
	}()
	t.frames = f
}

// stop keeps the last line. It comes before the spool's end.
func (f *frames) stop() {
	f.cancel()
	<-f.done
}

// run reads until ctx is done, again from the start where the program comes back.
func (f *frames) run(ctx context.Context) {
	defer f.flush()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if f.session(ctx) {
			wait = firstRetry
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// session reads the lines of one connection. It is true where there was one that
// could be used.
func (f *frames) session(ctx context.Context) (useful bool) {
	conn, err := f.from.Dial(ctx)
	if err != nil {
		return false // not there yet, or no more
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // which Next notices
	defer conn.Close()
	defer f.flush() // the program's last totals, if it has ended
	d := gempba.NewDecoder(conn)
	for {
		e, err := d.Next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return useful
		case err != nil:
			f.tell("stream", fmt.Errorf("the GemPBA program at %s is not listened to: %w", f.from, err))
			return useful
		}
		f.take(e, time.Now())
		useful = true
	}
}

func (f *frames) take(e *gempba.Envelope, now time.Time) {
	totals := e.Totals()
	f.mu.Lock()
	f.totals = &totals
	f.mu.Unlock()
	f.newest, f.came = e, now
	if f.kept.IsZero() || now.Sub(f.kept) >= f.interval {
		f.flush()
	}
}

// sums is the JSON of those of the newest line since it was asked for last; nil where
// none has come.
func (f *frames) sums() ([]byte, error) {
	f.mu.Lock()
	totals := f.totals
	f.totals = nil
	f.mu.Unlock()
	if totals == nil {
		return nil, nil
	}
	return json.Marshal(totals)
}

// flush keeps the newest line, without its topology where that is as before.
func (f *frames) flush() {
	if f.newest == nil || f.keep == nil {
		return
	}
	e := *f.newest
	f.newest, f.kept = nil, f.came
	topology, err := gempba.AppendLine(nil, &gempba.Envelope{Topology: e.Topology})
	if e.Topology != nil && bytes.Equal(topology, f.topology) {
		e.Topology = nil
	}
	line, bad := gempba.AppendLine(nil, &e)
	if err = errors.Join(err, bad); err == nil {
		err = f.keep(rt.Record{Time: f.came.UnixNano(), Source: "gempba", Body: bytes.TrimSuffix(line, []byte("\n"))})
	}
	if err != nil {
		f.tell("keep", fmt.Errorf("keep a line of GemPBA: %w", err))
		return
	}
	if e.Topology != nil {
		f.topology = topology
	}
}

// tell warns of each kind of trouble once: a stream brings it again and again.
func (f *frames) tell(kind string, err error) {
	if !f.told[kind] {
		f.told[kind] = true
		f.warn(err)
	}
}
