package page

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// A job with the time of a wrong clock: the chart has the weeks next to the newest.
func TestChartOfDistantWeeks(t *testing.T) {
	week := func(year int) site.Total {
		var w site.Total
		w.Begin = time.Date(year, 1, 5, 0, 0, 0, 0, time.UTC)
		w.CoreSecs = rt.Some(3600.0)
		return w
	}
	c := chartOf([]site.Total{week(2026), week(1970)})
	if len(c.Bars) != 1 {
		t.Fatalf("%d bars, want that of 2026", len(c.Bars))
	}
	if b := c.Bars[0]; b.Width <= 0 || b.X+b.Width > c.Width {
		t.Errorf("the bar is at %d, %d wide, in a chart of %d", b.X, b.Width, c.Width)
	}
}
