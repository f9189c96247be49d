package rt

import "iter"

// Interval is the time between two consecutive snapshots. A counter that is absent in Prev
// has the value of an older snapshot, so that the differences of a run's intervals add up
// to the difference of its ends.
type Interval struct{ Prev, Cur *Snapshot }

// Intervals iterates over the intervals of a run's snapshots, which may reuse one
// Snapshot. An Interval is valid until the next one. After an error there is no further
// interval.
func Intervals(snapshots iter.Seq2[*Snapshot, error]) iter.Seq2[Interval, error] {
	return func(yield func(Interval, error) bool) {
		var w Walk
		for cur, err := range snapshots {
			if err != nil {
				yield(Interval{}, err)
				return
			}
			if prev := w.Step(cur); prev != nil && !yield(Interval{prev, cur}, nil) {
				return
			}
		}
	}
}

// Walk is the push version of Intervals: the caller feeds snapshots one at a time. The zero
// value is ready to use.
type Walk struct {
	last, before Snapshot
	started      bool
}

// Step takes the next snapshot, of which it keeps a copy, and returns the snapshot at which
// the interval begins, nil for the first. The result is valid until the next Step.
func (w *Walk) Step(cur *Snapshot) *Snapshot {
	w.last, w.before = w.before, w.last
	w.last.CopyFrom(cur)
	if !w.started {
		w.started = true
		return nil
	}
	w.last.InheritCounters(&w.before)
	if w.before.Job.Phase == JobPending { // its bytes are in no interval, see jobIO
		last, own := &w.last.Job, &cur.Job
		last.IOReadBytes, last.IOWriteBytes = own.IOReadBytes, own.IOWriteBytes
		last.ProcReadBytes, last.ProcWriteBytes = own.ProcReadBytes, own.ProcWriteBytes
	}
	return &w.before
}
