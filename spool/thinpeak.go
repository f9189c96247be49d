package spool

import "github.com/resource-tracker/rt"

// carryPeaks sets the peak of each snapshot that stays to the highest peak since the previous
// one that stays. The last peak of the stretch must not change, because the sum at the next
// keyframe must stay the same: therefore the snapshot before it stays, too.
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

// higher returns the higher value; an absent one does not count.
func higher(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	if !a.Valid() || b.Or(0) > a.Or(0) {
		return b
	}
	return a
}

func peakOf(r *thinRow) *rt.Opt[uint64] { return &r.snapshot.Job.MemIntervalPeak }

// lastPeak returns the last row before number end that has a peak, -1 if there is none.
func lastPeak(list []thinRow, end int) int {
	for i := end - 1; i >= 0; i-- {
		if peakOf(&list[i]).Valid() {
			return i
		}
	}
	return -1
}
