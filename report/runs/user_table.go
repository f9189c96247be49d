package runs

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

// PrintUserJobs prints lines as a table in a user's words. It fits into width characters, all columns if width is 0.
func PrintUserJobs(w io.Writer, lines []Line, width int, colors report.Colors) error {
	paint := func(level func(l *Line) report.Level) func(*Line, string) string {
		return func(l *Line, text string) string { return level(l).Paint(text) }
	}
	columns := []table.Column[Line]{
		{Head: "JOB", Cell: func(l *Line) string { return l.Job }},
		{Head: "USER", Drop: 4, IsName: true, Cell: func(l *Line) string { return cmp.Or(l.User, "-") }},
		{Head: "NAME", Drop: 2, IsName: true, Cell: func(l *Line) string { return cmp.Or(l.Name, "-") }},
		{Head: "STATE", Cell: userState, Paint: paint(func(l *Line) report.Level { return colors.OfOutcome(rt.Outcome(l.State)) })},
		{Head: "STARTED", Drop: 3, Cell: func(l *Line) string { return l.Start.Local().Format("01-02 15:04") }},
		{Head: "TIME", Cell: func(l *Line) string { return report.Clock(l.ElapsedSecs) }},
		{Head: "TIME%", Drop: 5, Cell: func(l *Line) string { return percent(l.TimePct) }, Paint: paint(func(l *Line) report.Level { return colors.OfTime(l.TimePct) })},
		{Head: "CORES", Drop: 6, Cell: func(l *Line) string { return report.Number(l.Cores, "%d") }},
		{Head: "CPU%", Cell: func(l *Line) string { return l.CPUMark.Sign(percent(l.CPUPct)) }, Paint: paint(func(l *Line) report.Level { return colors.OfUse(l.CPUPct) })},
		{Head: "MEM%", Cell: func(l *Line) string { return l.MemoryMark.Sign(percent(l.MemoryPct)) }, Paint: paint(func(l *Line) report.Level { return colors.OfMemory(l.MemoryPct) })},
		{Head: "GPU%", Drop: 1, Cell: func(l *Line) string { return percent(l.GPUPct) }, Paint: paint(func(l *Line) report.Level { return colors.OfUse(l.GPUPct) })},
		{Head: "WASTE", Cell: func(l *Line) string { return l.WasteMark.Sign(report.Number(l.WasteHours, "%.2f")) }},
	}
	isOne := !slices.ContainsFunc(lines, func(l Line) bool { return l.User != lines[0].User })
	hasGPUs := slices.ContainsFunc(lines, func(l Line) bool { return l.GPUs.Or(1) > 0 || l.GPUPct.Valid() })
	columns = slices.DeleteFunc(columns, func(c table.Column[Line]) bool {
		isSame := isOne && c.Head == "USER"
		isEmpty := !hasGPUs && c.Head == "GPU%"
		return isSame || isEmpty
	})
	dropped, err := table.Write(w, columns, lines, width)
	return errors.Join(err, table.WriteDropped(w, dropped))
}

func percent(v rt.Opt[float64]) string { return report.Number(v, "%.0f") }

// userState is the state in a user's words.
func userState(l *Line) string {
	switch {
	case l.SlurmState == report.Requeued:
		return report.WaitsAgain
	case l.State == string(rt.StateRunning):
		return cmp.Or(strings.ToLower(l.SlurmState), l.State)
	case l.State == abandoned:
		return "running?"
	}
	text := report.StateWords(rt.Outcome(l.State))
	if word, by, _ := strings.Cut(l.SlurmState, " "); by != "" && strings.EqualFold(word, l.State) {
		return text + " " + by
	}
	return text
}
