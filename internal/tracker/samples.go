package main

import (
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
)

// lineTaker is where the lines of samples go: an outlet.
type lineTaker interface {
	room() bool      // for a sample
	add(line []byte) // copies it
}

// emitter is the sink that prints samples. It derives each from two snapshots; the
// first one primes it and is not shown (section 4).
type emitter struct {
	out     lineTaker
	csv     bool
	scope   rt.Scope
	jobName rt.Opt[string]
	// program says what a GemPBA program has told since it was asked last, as JSON;
	// nil where none is listened to.
	program func() ([]byte, error)

	walk    rt.Walk
	primed  bool
	started bool      // the header is out
	last    int64     // time stamp of the line before
	sample  rt.Sample // the newest; its memory is used again
	buf     []byte
}

// Put implements collect.Sink. Where there is no room for a sample, the next one
// covers its time.
func (e *emitter) Put(s *rt.Snapshot) error {
	if e.primed && !e.out.room() {
		return nil
	}
	e.primed = true
	if prev := e.walk.Step(s); prev != nil {
		return e.emit(prev, s)
	}
	return nil
}

func (e *emitter) emit(prev, cur *rt.Snapshot) error {
	sample := &e.sample
	sample.Derive(prev, cur, e.scope)
	sample.JobName = e.jobName
	sample.TimestampSecs = max(sample.TimestampSecs, e.last) // T-OUT-04, when the clock was set back
	e.last = sample.TimestampSecs
	if !e.csv {
		e.buf = resourcetracker.AppendJSON(e.buf[:0], sample, rt.Version)
		err := e.addProgram()
		e.out.add(e.buf)
		return err
	}
	if !e.started {
		e.out.add([]byte(resourcetracker.CSVHeader))
		e.started = true
	}
	e.buf = resourcetracker.AppendCSV(e.buf[:0], sample.TimestampSecs, &sample.Scalars)
	e.out.add(e.buf)
	return nil
}

// addProgram gives the JSON sample what the job's program has told.
func (e *emitter) addProgram() error {
	if e.program == nil {
		return nil
	}
	told, err := e.program()
	if err != nil {
		return fmt.Errorf("add what the GemPBA program says to a sample: %w", err)
	}
	if told != nil {
		e.buf = resourcetracker.With(e.buf, "gempba", told)
	}
	return nil
}
