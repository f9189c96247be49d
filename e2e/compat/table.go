package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// result is what the intervals say of one comparison.
type result struct {
	theirs, ours  float64 // means over the intervals
	median, worst float64 // of the differences, in percent of the Python value
	intervals     int
	out           int // intervals that are out
}

// compare judges every interval by itself: the difference may be 5 % of the Python
// value, the figure's own step, and what the skew of the two readings explains. What
// the one tracker counts just before a reading and the other just after it, a burst,
// is missing here and in excess there: of a counter's interval and either neighbour
// the differences may cancel to within the same 5 %.
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

// explained is the difference that the skew of interval i can make: for a counter
// what is counted in so much time, for a level how far it moves in it, each as in
// the busiest of the interval and its neighbours.
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

// cancels says whether the differences of interval i and a neighbour make up for each other.
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

// table prints the comparisons and returns how many are out.
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
