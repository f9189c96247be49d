package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Telemetry is the Source of a program that broadcasts GemPBA's frames. It connects at
// the first Read, and again when the connection ends.
type Telemetry struct {
	Name string // of the address
	Dial func(context.Context) (net.Conn, error)
	Now  func() time.Time // nil is time.Now

	once    sync.Once
	mu      sync.Mutex
	program *Program
	lines   int
	err     error
}

// Timeouts of a Telemetry.
const (
	firstFrame  = 10 * time.Second        // for the first line, which is sent within a cadence
	secondFrame = 1500 * time.Millisecond // for the second, which rates need
	connectWait = 5 * time.Second
	retryAfter  = time.Second
)

// badLines is how many consecutive lines may be no telemetry before it disconnects.
const badLines = 100

// Read implements Source.
func (t *Telemetry) Read(ctx context.Context, _ Wanted) (*Frame, error) {
	t.once.Do(func() {
		go t.follow(ctx)
		t.await(ctx, 1, firstFrame)
		t.await(ctx, 2, secondFrame)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case t.program == nil && t.err != nil:
		return nil, t.err
	case t.program == nil:
		return nil, fmt.Errorf("%s has sent no line in %s: is it the telemetry of a GemPBA program?", t.Name, firstFrame)
	}
	now := time.Now()
	if t.Now != nil {
		now = t.Now()
	}
	f := &Frame{Time: now, Where: t.Name, Program: t.program.snapshot()}
	if t.err != nil {
		f.Note = "trying again: " + t.err.Error() // a narrow screen cuts the end
	}
	return f, nil
}

// awaitStep is the time between two looks at the number of lines.
const awaitStep = 10 * time.Millisecond

// await waits for a number of lines, or until the connection has failed.
func (t *Telemetry) await(ctx context.Context, lines int, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	isDone := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.lines >= lines || t.err != nil
	}
	for !isDone() && recovery.Pause(ctx, awaitStep) {
	}
}

// follow keeps the connection open.
func (t *Telemetry) follow(ctx context.Context) {
	defer recovery.Handle(t.fail)
	for ctx.Err() == nil {
		t.fail(t.connect(ctx))
		recovery.Pause(ctx, retryAfter)
	}
}

// connect reads until the connection ends, and returns why.
func (t *Telemetry) connect(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, connectWait)
	conn, err := t.Dial(dialing)
	cancel()
	if err != nil {
		return fmt.Errorf("connect to the telemetry: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	lines := gempba.NewDecoder(conn)
	for inRow := 0; ; {
		e, err := lines.Next()
		switch {
		case err == nil:
			inRow = 0
			t.addLine(e)
			continue
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s has closed the connection", t.Name)
		case !errors.Is(err, gempba.ErrFormat) && !errors.Is(err, gempba.ErrVersion) && !errors.Is(err, gempba.ErrLimit):
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		inRow++
		if inRow == 1 {
			t.fail(fmt.Errorf("%s: %w", t.Name, err)) // a line in another format
		}
		if inRow >= badLines {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
}

func (t *Telemetry) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

func (t *Telemetry) addLine(e *gempba.Envelope) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.program == nil {
		t.program = newProgram()
	}
	t.program.addLine(e)
	t.err = nil
	t.lines++
}

// Program has the activity of a program's workers from their frames.
type Program struct {
	newest  *gempba.Envelope
	workers map[uint32]*worker
	hosts   map[string]*hostFrames
}

func newProgram() *Program {
	return &Program{workers: map[uint32]*worker{}, hosts: map[string]*hostFrames{}}
}

// lastTwo has the last two frames of a worker or a host.
type lastTwo[F any] struct {
	cur, prev F
	at, past  int64 // times in milliseconds; 0 without a frame
}

type worker struct {
	lastTwo[gempba.WorkerFrame]
	cpu []rt.Opt[float64]
}

type hostFrames = lastTwo[gempba.NodeFrame]

// addLine adds a line. A line repeats the frames of workers that have sent none since.
func (p *Program) addLine(e *gempba.Envelope) {
	p.newest = e
	workers := make(map[uint32]*worker, len(e.Workers))
	for _, f := range e.Workers {
		w := cmp.Or(p.workers[f.WorkerID], &worker{})
		if !f.SeqNo.Valid() || f.SeqNo != w.cur.SeqNo {
			cpu := append(w.cpu[max(0, len(w.cpu)-window+1):len(w.cpu):len(w.cpu)], f.ProcessCPUPct)
			w = &worker{w.next(f, f.WorkerLocalMS.Or(e.TS)), cpu}
		}
		workers[f.WorkerID] = w
	}
	hosts := make(map[string]*hostFrames, len(e.Nodes))
	for _, f := range e.Nodes {
		h, known := p.hosts[f.Hostname]
		if at := f.SentinelLocalMS.Or(e.TS); !known || at != h.at {
			next := cmp.Or(h, &hostFrames{}).next(f, at)
			h = &next
		}
		hosts[f.Hostname] = h
	}
	p.workers, p.hosts = workers, hosts
}

// snapshot returns a state that never changes: addLine makes new maps and entries.
func (p *Program) snapshot() *Program {
	c := *p
	return &c
}

// next returns the frames after another one.
func (l *lastTwo[F]) next(f F, at int64) lastTwo[F] {
	return lastTwo[F]{cur: f, prev: l.cur, at: at, past: l.at}
}

// secs returns the time between the two frames; 0 for the first.
func (l *lastTwo[F]) secs() float64 {
	if l.past == 0 || l.at <= l.past {
		return 0
	}
	return float64(l.at-l.past) / 1000
}
