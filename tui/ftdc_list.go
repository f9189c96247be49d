package tui

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// WriteList prints a line for each metric of sum.
func (v *FTDCView) WriteList(w io.Writer, sum *FTDCSummary) error {
	of := ""
	if n := len(v.files); n > 1 {
		of = fmt.Sprintf(" of %d files", n)
	}
	fmt.Fprintf(w, "%d readings%s from %s to %s\n", sum.data, of, localTime(sum.first), localTime(sum.last))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	var texts []string
	for i := range sum.metrics {
		m := &sum.metrics[i]
		if ftdc.IsText(m.name) {
			texts = append(texts, m.name)
			continue
		}
		if i == len(texts) {
			fmt.Fprintln(tw, "MIN\tMEAN\tMAX\tLAST\tREADINGS\t  METRIC")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t  %s\n", exact(m.min), exact(m.mean()), exact(m.max), exact(m.last), m.n, report.Plain(m.name))
	}
	err := tw.Flush()
	for _, name := range texts {
		fmt.Fprintln(w, report.Plain(name))
	}
	return err
}

func localTime(ns int64) string {
	return time.Unix(0, ns).Format("2006-01-02T15:04:05.999Z07:00")
}

// exact formats all digits of whole numbers, and 6 digits of the others.
func exact(v float64) string {
	switch {
	case v != v:
		return "-"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// FTDCDocument is the JSON form of an FTDCView.
type FTDCDocument struct {
	Files    []string     `json:"files"`
	Readings int          `json:"readings"`
	First    *time.Time   `json:"first"`
	Last     *time.Time   `json:"last"`
	Rate     bool         `json:"rate"` // growth per second instead of values
	Metrics  []FTDCMetric `json:"metrics"`
	Error    string       `json:"error,omitempty"` // of a damaged file
}

// FTDCMetric is a metric of an FTDCDocument.
type FTDCMetric struct {
	Name     string          `json:"name"`
	Readings int             `json:"readings"` // finite ones
	Min      rt.Opt[float64] `json:"min"`
	Mean     rt.Opt[float64] `json:"mean"`
	Max      rt.Opt[float64] `json:"max"`
	Last     rt.Opt[float64] `json:"last"` // also null if it is infinite
}

// Document describes what Summarize returned.
func (v *FTDCView) Document(sum *FTDCSummary, damage error) FTDCDocument {
	d := FTDCDocument{Readings: sum.data, Rate: v.rate, Metrics: []FTDCMetric{}}
	for _, f := range v.files {
		d.Files = append(d.Files, f.name)
	}
	if damage != nil {
		d.Error = damage.Error()
	}
	if sum.data > 0 {
		first, last := time.Unix(0, sum.first).UTC(), time.Unix(0, sum.last).UTC()
		d.First, d.Last = &first, &last
	}
	for i := range sum.metrics {
		m := &sum.metrics[i]
		j := FTDCMetric{Name: m.name, Readings: m.n}
		if m.n > 0 {
			j.Min, j.Mean, j.Max = rt.Some(fewDigits(m.min)), rt.Some(m.mean()), rt.Some(fewDigits(m.max))
		}
		if m.last == m.last && !math.IsInf(m.last, 0) {
			j.Last.Set(fewDigits(m.last))
		}
		d.Metrics = append(d.Metrics, j)
	}
	return d
}

// WriteCSV prints a column for every metric of the files, also of those that start
// late: a first pass collects the names. An empty cell was not read; NaN is a value.
func (v *FTDCView) WriteCSV(w io.Writer) error {
	sum, damage := v.Summarize()
	if damage != nil && !errors.Is(damage, ErrDamaged) {
		return damage
	}
	out := csv.NewWriter(w)
	line := []string{"time"}
	for i := range sum.metrics {
		line = append(line, cell(sum.metrics[i].name))
	}
	if err := out.Write(line); err != nil {
		return err
	}
	err := v.scan(func(r *row) error {
		line[0] = time.Unix(0, r.at).UTC().Format(time.RFC3339Nano)
		for i := range sum.metrics {
			line[i+1] = ""
			if i < len(r.values) && r.isRead[i] {
				line[i+1] = number(r.values[i])
			}
		}
		return out.Write(line)
	})
	out.Flush()
	return errors.Join(err, out.Error())
}

// number returns the fewest digits that identify a float32, and all digits of a whole number.
func number(v float64) string {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case v == float64(float32(v)):
		return strconv.FormatFloat(v, 'g', -1, 32)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// fewDigits returns v rounded to the digits of number.
func fewDigits(v float64) float64 {
	short, err := strconv.ParseFloat(number(v), 64)
	if err != nil {
		return v
	}
	return short
}

// cell returns a cell of text. Characters that a terminal may interpret are escaped, \u0001: two names that
// differ in them stay two names. So is the backslash.
func cell(s string) string {
	var b strings.Builder
	for _, c := range strings.ReplaceAll(s, `\`, `\\`) {
		switch {
		case printable.Is(string(c)):
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return printable.Cell(b.String())
}
