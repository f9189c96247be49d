package runs

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

// compared is a figure of two jobs. value is for the change; absent for one that is no number.
type compared struct {
	what  string
	text  func(l *Line) string
	value func(l *Line) rt.Opt[float64]
}

// comparedFigures are the lines of a comparison.
var comparedFigures = []compared{
	{"Name", func(l *Line) string { return cmp.Or(l.Name, "-") }, nil},
	{"State", userState, nil},
	{"Started", func(l *Line) string { return l.Start.Format("2006-01-02 15:04:05") }, nil},
	{"Time", func(l *Line) string { return report.Clock(l.ElapsedSecs) }, func(l *Line) rt.Opt[float64] { return l.ElapsedSecs }},
	{"Time limit", func(l *Line) string { return report.Clock(l.LimitSecs) }, func(l *Line) rt.Opt[float64] { return l.LimitSecs }},
	{"Nodes", nodesOf, nil},
	{"Cores", func(l *Line) string { return report.Number(l.Cores, "%d") }, func(l *Line) rt.Opt[float64] { return rt.Scaled(l.Cores, 1) }},
	{"CPU time", func(l *Line) string { return l.CPUMark.Sign(report.Clock(l.CPUSecs)) }, func(l *Line) rt.Opt[float64] { return l.CPUSecs }},
	{"CPU%", func(l *Line) string { return l.CPUMark.Sign(decimal(l.CPUPct)) }, nil},
	{"Memory peak", func(l *Line) string { return l.MemoryMark.Sign(report.Size(l.PeakBytes)) }, func(l *Line) rt.Opt[float64] { return rt.Scaled(l.PeakBytes, 1) }},
	{"Memory request", func(l *Line) string { return report.Size(l.LimitBytes) }, func(l *Line) rt.Opt[float64] { return rt.Scaled(l.LimitBytes, 1) }},
	{"Memory%", func(l *Line) string { return l.MemoryMark.Sign(decimal(l.MemoryPct)) }, nil},
	{"GPUs", func(l *Line) string { return report.Number(l.GPUs, "%d") }, func(l *Line) rt.Opt[float64] { return rt.Scaled(l.GPUs, 1) }},
	{"GPU%", func(l *Line) string { return decimal(l.GPUPct) }, nil},
	{"Waste, core-hours", func(l *Line) string { return l.WasteMark.Sign(report.Number(l.WasteHours, "%.2f")) }, func(l *Line) rt.Opt[float64] { return l.WasteHours }},
}

// Compared is a figure of two jobs, and the change from the first to the second.
type Compared struct{ What, First, Second, Change string }

// Compare returns the figures of two jobs.
func Compare(a, b *Line) (list []Compared) {
	for i := range comparedFigures {
		f := &comparedFigures[i]
		list = append(list, Compared{f.what, f.text(a), f.text(b), f.change(a, b)})
	}
	return list
}

// PrintComparison prints two jobs next to each other, with the change from the first to the second.
func PrintComparison(w io.Writer, a, b Line) error {
	a.Start, b.Start = a.Start.Local(), b.Start.Local()
	columns := []table.Column[Compared]{
		{Head: "JOB", Cell: func(c *Compared) string { return c.What }},
		{Head: a.Job, Cell: func(c *Compared) string { return c.First }},
		{Head: b.Job, Cell: func(c *Compared) string { return c.Second }},
		{Head: "CHANGE", Cell: func(c *Compared) string { return c.Change }},
	}
	_, err := table.Write(w, columns, Compare(&a, &b), 0)
	return err
}

// change is how much the figure of b differs, in percent of the figure of a.
func (f *compared) change(a, b *Line) string {
	if f.text(a) == f.text(b) {
		return "same"
	}
	if f.value == nil {
		return "-"
	}
	from, isKnown := f.value(a).Get()
	to, isOther := f.value(b).Get()
	if !isKnown || !isOther || from == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", math.Round((to-from)/from*100)+0) // not -0
}
