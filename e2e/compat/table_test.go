package main

import (
	"testing"
	"time"
)

// intervals makes pairs of two seconds from values of one column of both trackers.
func intervals(skew time.Duration, theirs, ours []float64) []pair {
	pairs := make([]pair, len(theirs))
	for i := range pairs {
		pairs[i] = pair{
			theirs: &theirReading{Row: map[string]any{"x": theirs[i]}}, ours: &ourReading{row: map[string]float64{"x": ours[i]}},
			secs: 2, skew: skew,
		}
	}
	return pairs
}

func TestEveryIntervalIsJudged(t *testing.T) {
	level, counter := column("x", "x", false, 1), column("x", "x", true, 1)
	for _, tt := range []struct {
		name         string
		c            comparison
		skew         time.Duration
		theirs, ours []float64
		out          int
		worst        float64
	}{
		{"equal", level, 0, []float64{100, 200}, []float64{100, 200}, 0, 0},
		{"5 % and a step", level, 0, []float64{100, 200}, []float64{106, 189}, 0, 6},
		{"more", level, 0, []float64{100, 200}, []float64{106.5, 188.5}, 2, 6.5},
		{"both zero", level, 0, []float64{0, 0}, []float64{0, 0}, 0, 0},
		{"something instead of nothing", counter, 0, []float64{0, 0}, []float64{0, 2}, 1, 0},
		{"a level that moved within the skew", level, time.Second, []float64{100, 200}, []float64{150, 200}, 0, 50},
		{"a level that did not", level, time.Second, []float64{100, 100}, []float64{150, 100}, 1, 50},
		{"what was counted within the skew", counter, 200 * time.Millisecond, []float64{100, 100}, []float64{116, 84}, 0, 16},
		{"more than that", counter, 200 * time.Millisecond, []float64{100, 100}, []float64{117, 117}, 2, 17},
		{"a burst between the two readings", counter, time.Millisecond, []float64{100, 900}, []float64{190, 810}, 0, 90},
		{"a burst that only one has seen", counter, time.Millisecond, []float64{100, 900}, []float64{190, 900}, 1, 90},
	} {
		r := tt.c.compare(intervals(tt.skew, tt.theirs, tt.ours))
		if r.out != tt.out || r.intervals != len(tt.theirs) || r.worst != tt.worst {
			t.Errorf("%s: %+v; want %d out, worst %v", tt.name, r, tt.out, tt.worst)
		}
	}
}

// A reading of ours that has no Python reading near it is left out.
func TestMatch(t *testing.T) {
	at := func(secs float64) (o ourReading) {
		o.snapshot.Wall, o.snapshot.Boot = int64(secs*1e9), int64(secs*1e9)
		o.row = map[string]float64{}
		return o
	}
	theirs := []theirReading{{Begin: 10, End: 10.02}, {Begin: 12, End: 12.02}, {Begin: 14, End: 14.02}, {Begin: 16, End: 16.02}}
	pairs := match(theirs, []ourReading{at(10.01), at(12.01), at(14.9), at(16.01)}, 2*time.Second)
	if len(pairs) != 1 || pairs[0].theirs != &theirs[1] || pairs[0].secs < 1.99 || pairs[0].skew.Round(time.Millisecond) != 20*time.Millisecond {
		t.Errorf("%+v", pairs)
	}
}
