package spool

import "github.com/resource-tracker/rt"

// carryPeaks makes the peak of each interval that grows the highest that was
// read in it. The last peak of the stretch stays what it is, for the
// sum at the keyframe that follows to be the same: so the one before it stays, too.
func carryPeaks(list []thinRow) {
	last := lastPeak(list, len(list))
	if last < 0 {
		return
	}
	if before := lastPeak(list, last); before >= 0 {
		list[before].keep = true
	}
	var highest rt.Opt[uint64]
	for i := range list[:last] {
		peak := peakOf(&list[i])
		highest = higher(highest, *peak)
		if list[i].keep {
			*peak = highest
			highest.Clear()
		}
	}
}

// higher is the higher one of what was read.
func higher(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	if !a.Valid() || b.Or(0) > a.Or(0) {
		return b
	}
	return a
}

func peakOf(r *thinRow) *rt.Opt[uint64] { return &r.snapshot.Job.MemIntervalPeak }

// lastPeak is the last row before number end that has a peak, -1 where none has.
func lastPeak(list []thinRow, end int) int {
	for i := end - 1; i >= 0; i-- {
		if peakOf(&list[i]).Valid() {
			return i
		}
	}
	return -1
}
