package main

import (
	"fmt"
	"io"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
)

// emitter is the sink that writes samples. It derives each from two snapshots; the
// first one primes it and is not shown (section 4). Each line is one write(2), so
// that nobody reads half of it (section 12).
type emitter struct {
	out     io.Writer
	name    string // of out, for messages
	csv     bool
	scope   rt.Scope
	jobName rt.Opt[string]
	failed  func(error) // told once, when a line could not be written; nothing is written after that

	primed  bool
	started bool // the header is out
	broken  bool
	prev    rt.Snapshot // with the counters of older ones where it has none
	next    rt.Snapshot // the memory of the one before
	last    int64 // time stamp of the line before
	buf     []byte
}

// Put implements collect.Sink. What the output does not take is told to failed.
func (e *emitter) Put(s *rt.Snapshot) error {
	if e.primed && !e.broken {
		if err := e.emit(s); err != nil {
			e.broken = true
			e.failed(fmt.Errorf("write a sample to %s: %w", e.name, err))
		}
	}
	keep(&e.next, s)
	if e.primed {
		e.next.InheritCounters(&e.prev) // so that rows add up over a gap
	}
	e.primed = true
	e.prev, e.next = e.next, e.prev
	return nil
}

func (e *emitter) emit(s *rt.Snapshot) error {
	sample := rt.Derive(&e.prev, s, e.scope)
	sample.JobName = e.jobName
	sample.TimestampSecs = max(sample.TimestampSecs, e.last) // T-OUT-04, when the clock was set back
	e.last = sample.TimestampSecs
	if !e.csv {
		e.buf = resourcetracker.AppendJSON(e.buf[:0], &sample, rt.Version)
		return e.write(e.buf)
	}
	if !e.started {
		if err := e.write([]byte(resourcetracker.CSVHeader)); err != nil {
			return err
		}
		e.started = true
	}
	e.buf = resourcetracker.AppendCSV(e.buf[:0], sample.TimestampSecs, &sample.Scalars)
	return e.write(e.buf)
}

func (e *emitter) write(line []byte) error {
	_, err := e.out.Write(line)
	return err
}

// keep copies a snapshot that its owner will use again.
func keep(dst, src *rt.Snapshot) {
	cpus, nets, disks, mounts, gpus := dst.CPUs[:0], dst.Nets[:0], dst.Disks[:0], dst.Mounts[:0], dst.GPUs[:0]
	*dst = *src
	dst.CPUs = append(cpus, src.CPUs...)
	dst.Nets = append(nets, src.Nets...)
	dst.Disks = append(disks, src.Disks...)
	dst.Mounts = append(mounts, src.Mounts...)
	dst.GPUs = append(gpus, src.GPUs...)
}
