package page

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// The size of a chart of weeks, in its own units, and the room for its labels at the left and below.
const (
	chartWidth  = 760
	chartHeight = 200
	chartLeft   = 60
	chartBelow  = 22
	chartTop    = 8
	chartWeeks  = 53
)

// chart is the chart of the core-hours of weeks.
type chart struct {
	Width, Height int
	Left          int // of the axis
	Lines         []chartLine
	Bars          []chartBar
}

// chartLine is a line of the grid with its value.
type chartLine struct {
	Y    int
	Text string
}

// chartBar is a week, in pixels. Label is empty if there is no room.
type chartBar struct {
	X, Middle, Width                int
	ReservedY, Reserved             int
	UsedY, Used                     int
	Label, ReservedHours, UsedHours string
}

// chartOf returns the chart of weeks, the newest first; nil without any.
func chartOf(weeks []site.Total) *chart {
	highest := 0.0
	for _, t := range weeks {
		highest = max(highest, t.CoreSecs.Or(0), t.CoreSecsUsed.Or(0))
	}
	if highest <= 0 {
		return nil
	}
	const week, below = 7 * 24 * time.Hour, chartHeight - chartBelow
	first := weeks[len(weeks)-1].Begin
	oldest := weeks[0].Begin.Add(-(chartWeeks - 1) * week)
	if first.Before(oldest) { // a node with a wrong clock may add a week of another decade
		first = oldest
	}
	number := int(weeks[0].Begin.Sub(first)/week) + 1
	step := (chartWidth - chartLeft) / max(number, 8)
	top := niceAbove(highest / 3600)
	y := func(secs rt.Opt[float64]) int { return below - int(secs.Or(0)/3600/top*(below-chartTop)) }
	c := &chart{Width: chartWidth, Height: chartHeight, Left: chartLeft}
	for _, part := range []float64{0, 0.5, 1} {
		secs := rt.Some(top * part * 3600)
		c.Lines = append(c.Lines, chartLine{y(secs), hours(secs)})
	}
	every := max(1, (70+step-1)/step) // weeks from one label to the next
	for i := len(weeks) - 1; i >= 0; i-- {
		t := weeks[i]
		if t.Begin.Before(first) {
			continue
		}
		n := int(t.Begin.Sub(first) / week)
		bar := chartBar{X: chartLeft + n*step, Width: step * 4 / 5, ReservedY: y(t.CoreSecs), UsedY: y(t.CoreSecsUsed), ReservedHours: hours(t.CoreSecs), UsedHours: hours(t.CoreSecsUsed)}
		bar.Middle, bar.Reserved, bar.Used = bar.X+bar.Width/2, below-bar.ReservedY, below-bar.UsedY
		if n%every == 0 {
			bar.Label = t.Begin.Format(time.DateOnly)
		}
		c.Bars = append(c.Bars, bar)
	}
	return c
}

// niceAbove returns a number of one digit, or of the form 1.5 or 2.5, that is not below n, times a power of ten.
func niceAbove(n float64) float64 {
	unit := 1e-6
	for unit*10 < n {
		unit *= 10
	}
	for _, digit := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8} {
		if digit*unit >= n {
			return digit * unit
		}
	}
	return 10 * unit
}
