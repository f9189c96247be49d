package report

import "github.com/resource-tracker/rt"

// Mark says on which side of the true value a figure is. It stands next to its figure in one type, so that
// each output has both.
type Mark string

// The marks of figures.
const (
	Exact   Mark = ""         // the figure is what was used, or what was used until now
	AtLeast Mark = "at least" // not all was read
	AtMost  Mark = "at most"  // something was counted that may not belong to it
)

// Of puts the mark before the text of a figure, "at least 1.20 s". A figure that was not read has none.
func (m Mark) Of(figure string) string { return m.before(figure, string(m)+" ") }

// Sign is Of for the column of a table, ">=1.20".
func (m Mark) Sign(figure string) string {
	return m.before(figure, map[Mark]string{AtLeast: ">=", AtMost: "<="}[m])
}

// Meaning says in a sentence what the mark of a figure means; empty for an exact one.
func (m Mark) Meaning() string {
	return map[Mark]string{AtLeast: "at least: not all of it was read", AtMost: "at most: a part of it may not belong here"}[m]
}

func (m Mark) before(figure, text string) string {
	if m == Exact || figure == "-" {
		return figure
	}
	return text + figure
}

// Rest is the mark of what remains after a figure with the mark m is subtracted.
func (m Mark) Rest() Mark {
	switch m {
	case AtLeast:
		return AtMost
	case AtMost:
		return AtLeast
	}
	return Exact
}

// and is the mark of a sum of two figures. All marked figures of one kind have the same mark.
func (m Mark) and(other Mark) Mark {
	if m == Exact {
		return other
	}
	return m
}

// Used is a CPU time with its mark.
type Used struct {
	UsedSecs rt.Opt[float64] `json:"used_secs"`
	UsedMark Mark            `json:"used_mark,omitempty"` // also of what follows from UsedSecs: user and system time, cores, percentages
}

// Text formats the CPU time with its mark.
func (u Used) Text() string { return u.UsedMark.Of(Clock(u.UsedSecs)) }

// addUsed adds up CPU times. The sum is absent if one of them is absent.
func addUsed[T any](list []T, of func(T) Used) (sum Used) {
	sum.UsedSecs = sumOf(list, func(part T) rt.Opt[float64] { return of(part).UsedSecs })
	for _, part := range list {
		sum.UsedMark = sum.UsedMark.and(of(part).UsedMark)
	}
	return sum
}

// PeakMemory is a peak of memory with its mark.
type PeakMemory struct {
	PeakBytes rt.Opt[uint64] `json:"peak_bytes"`
	PeakMark  Mark           `json:"peak_mark,omitempty"` // also of percentages that follow from PeakBytes
}

// Text formats the peak with its mark.
func (p PeakMemory) Text() string { return p.PeakMark.Of(Size(p.PeakBytes)) }

// highestOf is the peak of memory if only readings are known.
func highestOf(memory rt.Opt[uint64]) PeakMemory {
	if !memory.Valid() {
		return PeakMemory{}
	}
	return PeakMemory{memory, AtLeast}
}

// raisePeak keeps the higher peak.
func (p *PeakMemory) raisePeak(other PeakMemory) {
	if other.PeakBytes.Valid() && other.PeakBytes.Or(0) >= p.PeakBytes.Or(0) {
		*p = other
	}
}
