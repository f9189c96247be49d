package rt

import "iter"

// Interval is the time between two readings that follow each other. Prev has the
// counters of older ones where it has none itself, so that the differences of a
// run's intervals add up to the difference of its ends.
type Interval struct{ Prev, Cur *Snapshot }

// Intervals goes through the intervals of a run's snapshots, which may reuse one
// Snapshot. What it gives holds until the next one. After an error there is no
// further interval.
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

// Walk is Intervals for who is given the snapshots one by one. The zero value
// stands before the first.
type Walk struct {
	last, before Snapshot
	started      bool
}

// Step goes on to cur, of which it keeps a copy, and returns the snapshot that the
// interval begins with, nil for the first. That holds until the next Step.
func (w *Walk) Step(cur *Snapshot) *Snapshot {
	w.last, w.before = w.before, w.last
	w.last.CopyFrom(cur)
	if !w.started {
		w.started = true
		return nil
	}
	w.last.InheritCounters(&w.before)
	return &w.before
}
