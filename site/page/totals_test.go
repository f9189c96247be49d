package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// The parts of a waste are named with their shares. Small ones and those that are not known are left out.
func TestPartsOfWaste(t *testing.T) {
	const gib = 1 << 30
	known := func(cores, gpus, memory float64) (f report.Balance) {
		for i, secs := range []float64{cores, gpus, memory} {
			if secs >= 0 {
				f.Pairs()[i][0].Set(secs)
				f.Pairs()[i][1].Set(0)
			}
		}
		return f
	}
	for want, f := range map[string]report.Balance{
		"cores 50 %, GPUs 50 %":   known(16, 1, -1),
		"cores 75 %, memory 25 %": known(3, 0, 4*gib),
		"GPUs 100 %":              known(0.001, 1, -1),
		dash:                      known(-1, -1, -1),
	} {
		if got := weekList.column("parts").cell(newFake(t).pages(), &site.Total{Sum: report.Sum{Balance: f}}).Text; got != want {
			t.Errorf("%q: want %q", got, want)
		}
	}
}

// The totals are of at most 53 weeks, and of 8 weeks without a first day.
func TestPeriodOfTotals(t *testing.T) {
	for query, want := range map[string]string{
		"since=1970-01-01&until=2026-06-30": "2025-06-25", "since=2026-06-01&until=2026-06-30": "2026-06-01", "until=2026-06-30": "2026-05-06",
	} {
		f, values, err := totalsFilter(request{Request: httptest.NewRequest(http.MethodGet, "/users?"+query, nil)})
		if err != nil || f.Since.Format(time.DateOnly) != want || values["since"] != want {
			t.Errorf("%s begins on %v, %s: want %s, %v", query, f.Since, values["since"], want, err)
		}
	}
}

// The bars of a chart are in the chart, and the bars of a week at their place. The used part is not
// above the reserved one.
func TestChart(t *testing.T) {
	if chartOf(nil) != nil || chartOf([]site.Total{{Begin: time.Unix(0, 0)}}) != nil {
		t.Error("there is a chart without figures")
	}
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	var weeks []site.Total
	for _, n := range []int{52, 9, 1, 0} {
		w := site.Total{Begin: monday.AddDate(0, 0, 7*n)}
		w.CoreSecs, w.CoreSecsUsed = rt.Some(3600*float64(10+n)), rt.Some(3600*float64(n))
		weeks = append(weeks, w)
	}
	c := chartOf(weeks)
	if len(c.Bars) != 4 || c.Lines[2].Text != "80.0" || c.Lines[0].Text != "0" {
		t.Fatalf("%d bars, the axis is %v", len(c.Bars), c.Lines)
	}
	step := c.Bars[1].X - c.Bars[0].X
	for i, n := range []int{0, 1, 9, 52} {
		b := c.Bars[i]
		isPlaced := b.X == c.Left+n*step && b.X+b.Width <= c.Width && b.Width > 0
		isStanding := b.ReservedY+b.Reserved == c.Lines[0].Y && b.UsedY+b.Used == c.Lines[0].Y && b.ReservedY >= 0 && b.Used <= b.Reserved
		if !isPlaced || !isStanding {
			t.Errorf("week %d: %+v", n, b)
		}
	}
	if c.Bars[0].Label != "2 Mar" || c.Bars[1].Label != "" {
		t.Errorf("the labels are %q and %q", c.Bars[0].Label, c.Bars[1].Label)
	}
	if c.Bars[0].Used != 0 || c.Bars[3].Reserved <= c.Bars[2].Reserved {
		t.Errorf("the heights are %+v", c.Bars)
	}
}

func TestNiceAbove(t *testing.T) {
	for n, want := range map[float64]string{0.00021: "0.00025", 1: "1", 1.1: "1.5", 9: "10", 61: "80", 1e6: "1e+06", 1.00001e6: "1.5e+06"} {
		if got := fmt.Sprintf("%g", niceAbove(n)); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{-time.Hour: "now", time.Second: "now", 90 * time.Minute: "90 min", 7 * time.Hour: "7 h", 400 * 24 * time.Hour: "400 d"} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if got := ago(time.Time{}, now); got != dash {
		t.Errorf("no time: %s", got)
	}
}
