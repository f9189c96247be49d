package tui

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/resource-tracker/rt/report"
)

// axisWidth is the width of asciigraph's label of up to 9 characters and its axis.
const axisWidth = 13

// series has the means of some metrics in columns of equal time.
type series struct {
	names  []string
	values [][]float64 // NaN if nothing was read
}

// series computes the columns of a view with the times of sum.
func (v *FTDCView) series(sum *FTDCSummary, columns int) (*series, error) {
	columns = max(columns, 2)
	out := &series{}
	var counts [][]int
	span := max(sum.last-sum.first, 1)
	err := v.scan(func(r *row) error {
		out.names = r.names
		for len(out.values) < len(r.names) {
			out.values = append(out.values, slices.Repeat([]float64{math.NaN()}, columns))
			counts = append(counts, make([]int, columns))
		}
		c := int(float64(r.at-sum.first) / float64(span) * float64(columns-1))
		c = min(max(c, 0), columns-1)
		for i, x := range r.values {
			if x != x || math.IsInf(x, 0) {
				continue
			}
			if n := counts[i][c]; n == 0 {
				out.values[i][c] = x
			} else {
				out.values[i][c] += (x - out.values[i][c]) / float64(n+1)
			}
			counts[i][c]++
		}
		return nil
	})
	out.names = slices.Clone(out.names)
	for i := range out.values {
		bridge(out.values[i], sum.data)
	}
	return out, err
}

// bridge repeats values in columns without data, if there are fewer data than columns.
// Longer gaps stay: nothing was read there.
func bridge(values []float64, data int) {
	if data < 1 {
		return
	}
	reach := 2 * (len(values)/data + 1)
	last := -1
	for i, v := range values {
		if v != v {
			continue
		}
		if last >= 0 && i-last <= reach {
			for k := last + 1; k < i; k++ {
				values[k] = values[last]
			}
		}
		last = i
	}
}

// WritePlots draws each metric of sum over time, width characters wide.
func (v *FTDCView) WritePlots(w io.Writer, sum *FTDCSummary, width int) error {
	s, err := v.series(sum, width-axisWidth)
	if err != nil && !errors.Is(err, ErrDamaged) { // Summarize has reported the damage
		return err
	}
	for i, name := range s.names {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if _, err := io.WriteString(w, plot(name, s.values[i], sum, width, 13)); err != nil {
			return err
		}
	}
	return nil
}

// plot draws one series in a width and height in characters, which include the caption.
func plot(name string, values []float64, sum *FTDCSummary, width, height int) string {
	title := report.Plain(name)
	if !slices.ContainsFunc(values, func(v float64) bool { return v == v }) {
		return title + "\n  nothing to draw\n"
	}
	text := asciigraph.Plot(values,
		asciigraph.Height(max(height-3, 1)), asciigraph.Width(max(width-axisWidth, 2)),
		asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%9s", short(v)) }))
	first, last := clock(sum.first, sum), clock(sum.last, sum)
	pad := strings.Repeat(" ", max(width-axisWidth-len(first)-len(last), 1))
	return title + "\n" + text + "\n" + strings.Repeat(" ", axisWidth-1) + first + pad + last + "\n"
}

// clock formats a time as short as the span of the view allows.
func clock(ns int64, sum *FTDCSummary) string {
	layout := time.TimeOnly
	if sum.last-sum.first > int64(20*time.Hour) {
		layout = "01-02 15:04"
	} else if sum.last-sum.first < int64(10*time.Second) {
		layout = "15:04:05.000"
	}
	return time.Unix(0, ns).Format(layout)
}

// short formats a number in at most 9 characters, with suffixes of thousands.
func short(v float64) string {
	if v != v {
		return "-"
	}
	for _, unit := range []struct {
		name string
		is   float64
	}{{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if a := math.Abs(v); a >= max(unit.is, 1e4) && a < 1e18 {
			return strconv.FormatFloat(v/unit.is, 'f', 2, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}
