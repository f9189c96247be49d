package tracker

import (
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
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
	Scope   rt.Scope
	JobName rt.Opt[string]
	// Program returns the JSON of what a GemPBA program has reported since the last
	// call, nil for nothing. It may be nil.
	Program func() ([]byte, error)

	walk    rt.Walk
	primed  bool
	started bool      // the header is written
	last    int64     // time stamp of the line before
	sample  rt.Sample // the newest; its memory is reused
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
	sample := &e.sample
	sample.Derive(prev, cur, e.Scope)
	sample.JobName = e.JobName
	sample.TimestampSecs = max(sample.TimestampSecs, e.last) // T-OUT-04, when the clock was set back
	e.last = sample.TimestampSecs
	if !e.CSV {
		e.buf = resourcetracker.AppendJSON(e.buf[:0], sample, rt.Version)
		err := e.addProgram()
		e.Out.Add(e.buf)
		return err
	}
	if !e.started {
		e.Out.Add([]byte(resourcetracker.CSVHeader))
		e.started = true
	}
	e.buf = resourcetracker.AppendCSV(e.buf[:0], sample.TimestampSecs, &sample.Scalars)
	e.Out.Add(e.buf)
	return nil
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

// NoGPUs is the GPU source of a tracker that looks for none: the list of GPUs in samples
// is empty, their sums (section 7.2) are 0, and no CSV row ends in a comma (T-CSV-06).
type NoGPUs struct{}

// Name is what the ledger calls the source.
func (NoGPUs) Name() string { return "gpu" }

// Close does nothing.
func (NoGPUs) Close() error { return nil }

// Read sets the sums.
func (NoGPUs) Read(s *rt.Snapshot) error {
	s.Node.GPUUsage.Set(0)
	s.Node.GPUVRAMUsed.Set(0)
	s.Node.GPUUtilized.Set(0)
	return nil
}
