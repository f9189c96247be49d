package runs

import (
	"errors"
	"fmt"
	"io"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

// PrintHistory prints the jobs of a name, the oldest first, with their peaks and requests, and plots of time, memory
// and CPU. The table fits into width characters, all columns if width is 0.
func PrintHistory(w io.Writer, lines []Line, width int, isASCII bool, colors report.Colors) error {
	columns := []table.Column[Line]{
		{Head: "JOB", Cell: func(l *Line) string { return l.Job }},
		{Head: "STARTED", Drop: 1, Cell: func(l *Line) string { return l.Start.Local().Format("2006-01-02 15:04") }},
		{Head: "STATE", Cell: userState, Paint: func(l *Line, text string) string { return colors.OfOutcome(rt.Outcome(l.State)).Paint(text) }},
		{Head: "TIME", Cell: func(l *Line) string { return report.Clock(l.ElapsedSecs) }},
		{Head: "LIMIT", Drop: 3, Cell: func(l *Line) string { return report.Clock(l.LimitSecs) }},
		{Head: "CORES", Drop: 4, Cell: func(l *Line) string { return report.Number(l.Cores, "%d") }},
		{Head: "CPU%", Cell: func(l *Line) string { return l.CPUMark.Sign(percent(l.CPUPct)) }, Paint: func(l *Line, text string) string { return colors.OfUse(l.CPUPct).Paint(text) }},
		{Head: "PEAK", Cell: func(l *Line) string { return l.MemoryMark.Sign(report.Size(l.PeakBytes)) }, Paint: func(l *Line, text string) string { return colors.OfMemory(l.MemoryPct).Paint(text) }},
		{Head: "REQUESTED", Cell: func(l *Line) string { return report.Size(l.LimitBytes) }},
		{Head: "WASTE", Drop: 2, Cell: func(l *Line) string { return l.WasteMark.Sign(report.Number(l.WasteHours, "%.2f")) }},
	}
	_, err := table.Write(w, columns, lines, width)
	if len(lines) < 2 {
		return err
	}
	plotted := lines[max(0, len(lines)-plotJobs):]
	for _, one := range []struct {
		what string
		of   func(l *Line) rt.Opt[float64]
		text func(top float64) string
	}{
		{"Time", func(l *Line) rt.Opt[float64] { return l.ElapsedSecs }, func(top float64) string { return report.Clock(rt.Some(top)) }},
		{"Peak", func(l *Line) rt.Opt[float64] { return rt.Scaled(l.PeakBytes, 1) }, func(top float64) string { return report.Size(rt.Some(uint64(top))) }},
		{"CPU%", func(l *Line) rt.Opt[float64] { return l.CPUPct }, func(top float64) string { return fmt.Sprintf("%.0f", top) }},
	} {
		series := make([]rt.Opt[float64], len(plotted))
		for i := range plotted {
			series[i] = one.of(&plotted[i])
		}
		top := report.Peak(series)
		if top == 0 {
			continue
		}
		_, plotErr := fmt.Fprintf(w, "%-5s %s  from 0 to %s\n", one.what, report.Sparkline(series, top, isASCII), one.text(top))
		err = errors.Join(err, plotErr)
	}
	return err
}

// plotJobs is the largest number of jobs in a plot, one for each column of the terminal.
const plotJobs = 60
