package site

import (
	"encoding/json"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// maxFigure is the largest figure that is accepted from a client: its sums stay exact enough.
const maxFigure = 1e24

// SummaryOf returns the figures of a run in the summary of its finish, the zero value for one that cannot be read. A
// summary is a client's text.
func SummaryOf(summary json.RawMessage) (f report.RunFigures) {
	if json.Unmarshal(summary, &f) != nil {
		return report.RunFigures{}
	}
	if !isFigure(f.SuspendedSecs) {
		f.SuspendedSecs.Clear()
	}
	return f
}

// FiguresOf returns the balance of a run. It leaves out a pair with a figure that no run can have, and a mark that is
// none: a summary is a client's text.
func FiguresOf(s *report.RunFigures) report.Balance {
	b := s.Summary().Balance()
	b.CoreMark, b.MemoryMark = known(b.CoreMark), known(b.MemoryMark)
	for _, pair := range b.Pairs() {
		if !isFigure(*pair[0]) || !isFigure(*pair[1]) {
			pair[0].Clear()
			pair[1].Clear()
		}
	}
	return b
}

// known is the mark of a client, if it is one.
func known(m report.Mark) report.Mark {
	if m == report.AtLeast || m == report.AtMost {
		return m
	}
	return report.Exact
}

func isFigure(v rt.Opt[float64]) bool {
	n, ok := v.Get()
	isPossible := n >= 0 && n <= maxFigure && !math.IsNaN(n)
	return ok && isPossible
}
