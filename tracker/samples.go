package tracker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/internal/recovery"
)

// LineWriter takes the lines of samples: a SampleWriter.
type LineWriter interface {
	Room() bool      // for a sample
	Add(line []byte) // copies it
}

// Samples is the sink that prints samples. It derives each from two snapshots; the first
// snapshot yields none (section 4).
type Samples struct {
	Out     LineWriter
	CSV     bool // JSON otherwise
	Live    bool // the fields of the live dialect
	PID     rt.Opt[uint64]
	Scope   rt.Scope
	JobName rt.Opt[string]
	// Program returns the JSON of what a GemPBA program has reported since the last
	// call, nil for nothing. It may be nil.
	Program func() ([]byte, error)

	walk    rt.Walk
	primed  bool
	started bool  // a sample was printed
	last    int64 // time stamp of the line before
	buf     []byte
}

// Put implements collect.Sink. A sample for which there is no room is left out; the next
// one covers its time.
func (e *Samples) Put(s *rt.Snapshot) error {
	if e.primed && !e.Out.Room() {
		return nil
	}
	e.primed = true
	if prev := e.walk.Step(s); prev != nil {
		return e.print(prev, s)
	}
	return nil
}

func (e *Samples) print(prev, cur *rt.Snapshot) error {
	if e.Live && e.started && isRest(prev, cur) {
		return nil
	}
	scope := e.Scope
	if e.Live {
		scope = rt.ScopeNode
	}
	sample := rt.Derive(prev, cur, scope)
	sample.JobName = e.JobName
	sample.TimestampSecs = max(sample.TimestampSecs, e.last) // T-OUT-04, when the clock was set back
	e.last = sample.TimestampSecs
	isFirst := !e.started
	e.started = true
	if e.CSV {
		e.row(&sample.Scalars, isFirst, prev, cur)
		return nil
	}
	if e.Live {
		e.buf = resourcetracker.AppendLiveJSON(e.buf[:0], &sample, e.process(prev, cur), rt.Version)
	} else {
		e.buf = resourcetracker.AppendJSON(e.buf[:0], &sample, rt.Version)
	}
	if !isFirst {
		e.buf = resourcetracker.WithInterval(e.buf, sample.Scalars.Seconds)
	}
	err := e.addProgram()
	e.Out.Add(e.buf)
	return err
}

// shortestRest is the length of a last interval that is a sample in the live dialect.
const shortestRest = 100 * time.Millisecond

// isRest reports whether the interval is the short one between the newest sample and the end of the
// command. Clients of the live dialect take each sample for about one interval. The spool, and so
// the report and what is uploaded, has it.
func isRest(prev, cur *rt.Snapshot) bool {
	isLast := cur.Reason == rt.ReasonLast || cur.Reason == rt.ReasonStop
	return isLast && cur.Boot-prev.Boot < int64(shortestRest)
}

// process returns what a sample of the live dialect has of the job or the tree.
func (e *Samples) process(prev, cur *rt.Snapshot) *resourcetracker.LiveProcess {
	p := &resourcetracker.LiveProcess{ProcessScalars: rt.DeriveProcess(prev, cur), PID: e.PID}
	if cur.Job.Phase == rt.JobNone {
		p.RSS = cur.Tree.RSS
		return p
	}
	p.CgroupCores = p.CPUUsage
	user, ok1 := p.UserMillis.Get()
	system, ok2 := p.SystemMillis.Get()
	if ok1 && ok2 {
		p.CgroupSeconds.Set(float64(user+system) / 1000)
	}
	return p
}

// row prints a sample as CSV, the first one after the header.
func (e *Samples) row(scalars *rt.Scalars, isFirst bool, prev, cur *rt.Snapshot) {
	header := resourcetracker.CSVHeader
	if e.Live {
		header = resourcetracker.LiveCSVHeader
		process := rt.DeriveProcess(prev, cur)
		e.buf = resourcetracker.AppendLiveCSV(e.buf[:0], e.last, scalars, e.PID, &process)
	} else {
		e.buf = resourcetracker.AppendCSV(e.buf[:0], e.last, scalars)
	}
	if isFirst {
		e.Out.Add([]byte(header))
	}
	e.Out.Add(e.buf)
}

// addProgram adds the report of the job's program to a JSON sample.
func (e *Samples) addProgram() error {
	if e.Program == nil {
		return nil
	}
	report, err := e.Program()
	if err != nil {
		return fmt.Errorf("add the report of the GemPBA program to a sample: %w", err)
	}
	if report != nil {
		e.buf = resourcetracker.With(e.buf, "gempba", report)
	}
	return nil
}

// NoGPUs is the GPU source of a tracker that does not read GPUs, on a node that has none.
type NoGPUs struct{}

// Name returns the name of the source in the ledger.
func (NoGPUs) Name() string { return "gpu" }

// Close does nothing.
func (NoGPUs) Close() error { return nil }

// Read sets the number of GPUs.
func (NoGPUs) Read(s *rt.Snapshot) error {
	s.Node.GPUs.Set(0)
	return nil
}

// maxWaiting is how many lines wait for their reader: ten minutes of samples.
const maxWaiting = 600

// SampleWriter writes lines on a goroutine of its own: a slow or stopped reader delays nothing
// else. Each line is one write(2), so that no reader gets half of one (section 12).
type SampleWriter struct {
	to     io.WriteCloser
	name   string      // of to, for messages
	failed func(error) // called once, when a line could not be written; nothing is written after that

	lines   chan []byte // closed by Stop
	mu      sync.Mutex
	waiting int  // lines that are not written yet
	missed  int  // samples for which there was no room
	ended   bool // no line follows
	broken  bool
	done    chan struct{} // closed when all is written, or broken
}

// NewSampleWriter starts the writer, which closes to. failed is called once, on another goroutine.
func NewSampleWriter(to io.WriteCloser, name string, failed func(error)) *SampleWriter {
	w := &SampleWriter{to: to, name: name, failed: failed, lines: make(chan []byte, maxWaiting+1), done: make(chan struct{})}
	go w.run()
	return w
}

// Room reports whether there is room for a sample. A sample without room is counted.
func (w *SampleWriter) Room() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting < maxWaiting {
		return true
	}
	w.missed++
	return false
}

// Add takes a copy of a line. After Stop, or an error, it does nothing.
func (w *SampleWriter) Add(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.broken {
		return
	}
	select {
	case w.lines <- bytes.Clone(line):
		w.waiting++
	default: // the caller has not asked for room
		w.missed++
	}
}

func (w *SampleWriter) run() {
	defer close(w.done)
	defer recovery.Handle(w.failed)
	var err error
	for line := range w.lines {
		_, err = w.to.Write(line)
		if err != nil {
			break
		}
		w.mu.Lock()
		w.waiting--
		w.mu.Unlock()
	}
	if e := w.to.Close(); err == nil {
		err = e
	}
	if err != nil {
		w.mu.Lock()
		w.broken = true
		w.mu.Unlock()
		w.failed(fmt.Errorf("write a sample to %s: %w", w.name, err))
	}
}

// Stop ends the input. Waiting lines are still written.
func (w *SampleWriter) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.lines)
	}
}

// Wait stops the writer and waits until all is written or ctx is done; the error has the rest.
func (w *SampleWriter) Wait(ctx context.Context) error {
	w.Stop()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.missed + w.waiting; n > 0 && !w.broken {
		return fmt.Errorf("%d lines were not written to %s: its reader is too slow", n, w.name)
	}
	return nil
}
