package main

import (
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

	primed  bool
	started bool        // the header is out
	prev    rt.Snapshot // with the counters of older ones where it has none
	next    rt.Snapshot // the memory of the one before
	last    int64       // time stamp of the line before
	buf     []byte
}

// Put implements collect.Sink. Where there is no room for a sample, the next one
// covers its time.
func (e *emitter) Put(s *rt.Snapshot) error {
	if e.primed && !e.out.room() {
		return nil
	}
	keep(&e.next, s)
	if e.primed {
		e.emit(s)
		e.next.InheritCounters(&e.prev) // so that rows add up over a gap
	}
	e.primed = true
	e.prev, e.next = e.next, e.prev
	return nil
}

func (e *emitter) emit(s *rt.Snapshot) {
	sample := rt.Derive(&e.prev, s, e.scope)
	sample.JobName = e.jobName
	sample.TimestampSecs = max(sample.TimestampSecs, e.last) // T-OUT-04, when the clock was set back
	e.last = sample.TimestampSecs
	if !e.csv {
		e.buf = resourcetracker.AppendJSON(e.buf[:0], &sample, rt.Version)
		e.out.add(e.buf)
		return
	}
	if !e.started {
		e.out.add([]byte(resourcetracker.CSVHeader))
		e.started = true
	}
	e.buf = resourcetracker.AppendCSV(e.buf[:0], sample.TimestampSecs, &sample.Scalars)
	e.out.add(e.buf)
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
