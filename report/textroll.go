package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// WriteNodes writes what all nodes of a job used together; their own screens follow.
func WriteNodes(w io.Writer, s *Summary) error {
	n := s.Nodes
	p := page{}
	all, known := n.Expected.Get()
	of := onlyIf(known && all != uint64(len(n.Nodes)), fmt.Sprintf(" of %d", all))
	p.line("Job "+s.Label, "  on %d%s nodes", len(n.Nodes), of)
	p.line("CPU", "%s of %s allocated (%s cores), %s; node max/mean %s", seconds(n.UsedSecs),
		number(n.AllocatedSecs, "%.1f s"), count(n.Cores), number(n.UsedPct, "%.1f %%"), number(n.CPUImbalance, "%.2f"))
	p.line("Memory", "worst node %s, mean %s of its limit; OOM kills %s", number(n.WorstPct, "%.1f %%"), number(n.MeanPct, "%.1f %%"), count(n.OOMKills))
	const shown = 8
	for i := range n.Nodes[:min(shown, len(n.Nodes))] {
		o := &n.Nodes[i]
		p.line("  "+Plain(o.Node), " CPU %s, %s; memory %s of %s, %s%s", seconds(o.UsedSecs), number(o.UsedPct, "%.1f %%"),
			size(o.PeakBytes), size(o.LimitBytes), number(o.PeakPct, "%.1f %%"), onlyIf(!o.Complete, ", not complete"))
	}
	if more := len(n.Nodes) - shown; more > 0 {
		p.line("", "and %s with a lower peak", plural(more, "node"))
	}
	p.differences(n.Sacct)
	return p.write(w)
}

func (p *page) write(w io.Writer) error {
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("report: write: %w", err)
	}
	return nil
}

// WriteArray writes the roll-up of an array as one screen.
func WriteArray(w io.Writer, a *Array) error {
	p := page{}
	var outcomes []string
	for _, name := range slices.Sorted(maps.Keys(a.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%d %s", a.Outcomes[name], name))
	}
	p.line("Array "+Plain(a.Job), "  %s: %s", plural(len(a.Tasks), "task"), strings.Join(outcomes, ", "))
	if a.Earlier > 0 {
		p.line("", "without %s", plural(a.Earlier, "earlier attempt"))
	}
	p.line("Complete", "%d of %d; the figures below are of these", a.Complete, len(a.Tasks))
	p.line("", "%10s %10s %10s %10s %10s", "min", "10 %", "median", "90 %", "max")
	percent := func(v rt.Opt[float64]) string { return number(v, "%.1f %%") }
	for _, row := range []struct {
		label string
		of    *Distribution
		show  func(rt.Opt[float64]) string
	}{
		{"Elapsed", &a.Elapsed, span}, {"CPU", &a.Used, seconds}, {"  of alloc.", &a.UsedPct, percent},
		{"Memory", &a.Peak, bytes}, {"  of limit", &a.PeakPct, percent},
	} {
		d := row.of
		p.line(row.label, "%10s %10s %10s %10s %10s", row.show(d.Min), row.show(d.P10), row.show(d.P50), row.show(d.P90), row.show(d.Max))
	}
	p.line("OOM kills", "%s", count(a.OOMKills))
	const shown = 10
	for i := range a.Outliers[:min(shown, len(a.Outliers))] {
		o := &a.Outliers[i]
		p.line(onlyIf(i == 0, "Outliers"), "%s on %s: %s", Plain(o.Job), Plain(o.Node), o.shown())
	}
	if more := len(a.Outliers) - shown; more > 0 {
		p.line("", "and %d more", more)
	}
	return p.write(w)
}
