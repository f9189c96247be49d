package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// result is the outcome of one comparison over the intervals.
type result struct {
	theirs, ours  float64 // means over the intervals
	median, worst float64 // of the differences, in percent of the Python value
	intervals     int
	out           int // intervals that differ too much
}

// compare judges every interval separately. The permitted difference is 5 % of the Python value, the figure's own
// step, and what the skew of the two readings explains. One tracker may count a burst just before a reading and the
// other just after it. So for a counter, the differences of an interval and a neighbour may cancel to within the same
// 5 %.
func (c *comparison) compare(pairs []pair) result {
	var r result
	var percents []float64
	for i := range pairs {
		t, ok1 := c.theirs(&pairs[i])
		o, ok2 := c.ours(&pairs[i])
		if !ok1 || !ok2 {
			continue
		}
		r.intervals++
		r.theirs += t
		r.ours += o
		d := math.Abs(o - t)
		if allowed := tolerance*math.Abs(t) + c.step; d > allowed+c.explained(pairs, i) && !c.cancels(pairs, i, allowed) {
			r.out++
		}
		switch {
		case t != 0:
			percents = append(percents, d/math.Abs(t)*100)
		case d == 0:
			percents = append(percents, 0)
		}
	}
	if r.intervals > 0 {
		r.theirs /= float64(r.intervals)
		r.ours /= float64(r.intervals)
	}
	if n := len(percents); n > 0 {
		slices.Sort(percents)
		r.median, r.worst = percents[n/2], percents[n-1]
	}
	return r
}

// explained returns the difference that the skew of interval i can make. For a counter it is the amount counted in
// that time, for a level its change. Each is at the highest rate of the interval and its neighbours.
func (c *comparison) explained(pairs []pair, i int) float64 {
	part := min(1, pairs[i].skew.Seconds()/pairs[i].secs)
	most := 0.0
	here, _ := c.theirs(&pairs[i])
	for _, k := range []int{i - 1, i, i + 1} {
		if k < 0 || k >= len(pairs) {
			continue
		}
		v, ok := c.theirs(&pairs[k])
		if !ok {
			continue
		}
		if !c.counter {
			v -= here
		}
		most = max(most, math.Abs(v))
	}
	return part * most
}

// cancels reports whether the differences of interval i and a neighbour cancel.
func (c *comparison) cancels(pairs []pair, i int, allowed float64) bool {
	if !c.counter || pairs[i].skew == 0 {
		return false
	}
	sum := func(k int) (d float64) {
		for _, p := range []*pair{&pairs[i], &pairs[k]} {
			t, ok1 := c.theirs(p)
			o, ok2 := c.ours(p)
			if !ok1 || !ok2 {
				return math.Inf(1)
			}
			d += o - t
		}
		return math.Abs(d)
	}
	return i > 0 && sum(i-1) <= allowed || i+1 < len(pairs) && sum(i+1) <= allowed
}

// table prints the comparisons and returns the number of columns that differ too much.
func table(w io.Writer, pairs []pair, o options) (out int) {
	var skew time.Duration
	for i := range pairs {
		skew = max(skew, pairs[i].skew)
	}
	fmt.Fprintf(w, "%s and resource-tracker for %d s, %d intervals of %d s, at most %d ms apart\n\n",
		o.pkg, o.seconds, len(pairs), o.interval, skew.Milliseconds())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "column\tPython\tours\tmedian\tworst\twithin 5 %\tformula")
	for _, c := range comparisons() {
		r := c.compare(pairs)
		verdict := "yes"
		switch {
		case r.intervals == 0:
			verdict = "no figure"
		case c.apart:
			verdict = "-"
		case r.out > 0:
			verdict = fmt.Sprintf("NO, %d of %d", r.out, r.intervals)
		}
		if r.intervals == 0 && !c.apart || !c.apart && r.out > 0 {
			out++
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f %%\t%.2f %%\t%s\t%s\n", c.name, number(r.theirs), number(r.ours), r.median, r.worst, verdict, c.note)
	}
	_ = tw.Flush()
	return out
}

func number(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a) || a >= 1e5:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
