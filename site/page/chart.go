package page

import (
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// The room for the labels of a chart at its left, below and above, in its own units.
const (
	chartLeft  = 60
	chartBelow = 22
	chartTop   = 8
)

// chartForm is a kind of a chart.
type chartForm struct {
	width, height, label int // the last one is the width of a label
	length               time.Duration
	most, least          int    // periods with a place
	layout               string // of a label
	pair                 int    // of Balance.Pairs
	title, unit          string
}

var (
	weekForm   = chartForm{480, 170, 60, 7 * 24 * time.Hour, 53, 8, "2 Jan", 0, "Core-hours reserved and used in each week; the table below has the values", "core-hours"}
	coreDays   = chartForm{480, 170, 44, 24 * time.Hour, 7, 7, "Mon 2", 0, "Core-hours used and not used by the jobs that began on each of seven days", "core-hours"}
	gpuDays    = chartForm{480, 170, 44, 24 * time.Hour, 7, 7, "Mon 2", 1, "GPU-hours used and not used by the jobs that began on each of seven days", "GPU-hours"}
	chartParts = []float64{0, 0.5, 1} // of the axis, with a line
)

// chart is a chart of hours by week or day.
type chart struct {
	Title         string
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

// chartBar is a week or a day, in pixels. Label is empty if there is no room.
type chartBar struct {
	X, Middle, Width    int
	ReservedY, Reserved int
	UsedY, Used         int
	Label, Title        string
}

// chartOf returns the chart of the core-hours of weeks, the newest first; nil without any.
func chartOf(weeks []site.Total) *chart {
	if len(weeks) == 0 {
		return nil
	}
	return weekForm.chart(weeks, weeks[0].Begin)
}

// chart returns the chart of periods, the newest first, up to the last one; nil without hours.
func (o *chartForm) chart(list []site.Total, last time.Time) *chart {
	highest := 0.0
	for i := range list {
		pair := list[i].Pairs()[o.pair]
		highest = max(highest, pair[0].Or(0), pair[1].Or(0))
	}
	if highest <= 0 {
		return nil
	}
	below, oldest := o.height-chartBelow, last.Add(-time.Duration(o.most-1)*o.length)
	first := list[len(list)-1].Begin
	isOutside := first.Before(oldest) || o.least == o.most
	if isOutside { // a node with a wrong clock may add a week of another decade
		first = oldest
	}
	number := int(last.Sub(first)/o.length) + 1
	step := (o.width - chartLeft) / max(number, o.least)
	top := niceAbove(highest / 3600)
	y := func(secs rt.Opt[float64]) int { return below - int(secs.Or(0)/3600/top*float64(below-chartTop)) }
	c := &chart{Title: o.title, Width: o.width, Height: o.height, Left: chartLeft}
	for _, part := range chartParts {
		secs := rt.Some(top * part * 3600)
		c.Lines = append(c.Lines, chartLine{y(secs), hours(secs)})
	}
	every := max(1, (o.label+step-1)/step) // periods from one label to the next
	for i := len(list) - 1; i >= 0; i-- {
		t := &list[i]
		if t.Begin.Before(first) {
			continue
		}
		n, pair := int(t.Begin.Sub(first)/o.length), t.Pairs()[o.pair]
		bar := chartBar{X: chartLeft + n*step, Width: step * 4 / 5, ReservedY: y(*pair[0]), UsedY: y(*pair[1])}
		bar.Title = fmt.Sprintf("%s: %s of %s %s used", t.Begin.Format(time.DateOnly), hours(*pair[1]), hours(*pair[0]), o.unit)
		bar.Middle, bar.Reserved, bar.Used = bar.X+bar.Width/2, below-bar.ReservedY, below-bar.UsedY
		if n%every == 0 {
			bar.Label = t.Begin.Format(o.layout)
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
