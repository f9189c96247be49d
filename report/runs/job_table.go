package runs

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

type jobColumn struct {
	table.Column
	cell func(*Line) string
}

// jobColumns are the columns of the table.
var jobColumns = []jobColumn{
	{table.Column{Head: "JOB"}, func(l *Line) string { return l.Job }},
	{table.Column{Head: "USER", Drop: 2, IsName: true}, func(l *Line) string { return cmp.Or(l.User, "-") }},
	{table.Column{Head: "ACCOUNT", Drop: 9, IsName: true}, func(l *Line) string { return cmp.Or(l.Account, "-") }},
	{table.Column{Head: "PARTITION", Drop: 8, IsName: true}, func(l *Line) string { return cmp.Or(l.Partition, "-") }},
	{table.Column{Head: "NAME", Drop: 3, IsName: true}, func(l *Line) string { return cmp.Or(l.Name, "-") }},
	{table.Column{Head: "STATE"}, stateText},
	{table.Column{Head: "STARTED", Drop: 6}, func(l *Line) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{table.Column{Head: "ELAPSED"}, func(l *Line) string { return report.Clock(l.ElapsedSecs) }},
	{table.Column{Head: "READ-AGO", Drop: 10}, func(l *Line) string { return report.Clock(l.ReadAgo(time.Now())) }}, // left out if no job runs
	{table.Column{Head: "TIME%", Drop: 4}, func(l *Line) string { return decimal(l.TimePct) }},
	{table.Column{Head: "NODES", Drop: 7}, nodesOf},
	{table.Column{Head: "CORES", Drop: 5}, coresOf},
	{table.Column{Head: "CPU%"}, func(l *Line) string { return l.CPUMark.Sign(decimal(l.CPUPct)) }},
	{table.Column{Head: "MEM%"}, func(l *Line) string { return l.MemoryMark.Sign(decimal(l.MemoryPct)) }},
	{table.Column{Head: "GPU%", Drop: 1}, func(l *Line) string { return decimal(l.GPUPct) }},
	{table.Column{Head: "UNUSED-CORE-H"}, unusedOf},
}

// stateText is the state, with Slurm's own where that says more: "cancelled (PREEMPTED)", "cancelled by root".
func stateText(l *Line) string {
	word, by, _ := strings.Cut(l.SlurmState, " ")
	switch {
	case word == "":
		return l.State
	case strings.EqualFold(word, l.State):
		return l.State + " " + by
	}
	return l.State + " (" + l.SlurmState + ")"
}

// nodesOf returns the number of nodes, "1/2" if one of two is missing.
func nodesOf(l *Line) string {
	if l.MissingNodes > 0 {
		return fmt.Sprintf("%d/%d", l.Nodes, uint64(l.Nodes)+l.MissingNodes)
	}
	return fmt.Sprint(l.Nodes)
}

func coresOf(l *Line) string {
	if n, ok := l.Cores.Get(); ok {
		return fmt.Sprint(n)
	}
	return "-"
}

func unusedOf(l *Line) string {
	if h, ok := l.UnusedHours.Get(); ok {
		return l.UnusedMark.Sign(fmt.Sprintf("%.2f", h))
	}
	return "-"
}

func decimal(v rt.Opt[float64]) string {
	if x, ok := v.Get(); ok {
		return fmt.Sprintf("%.1f", x)
	}
	return "-"
}

// PrintTable prints lines as a table that fits into width characters, all columns if width is 0.
func PrintTable(w io.Writer, lines []Line, width int) error {
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	columns := jobColumns
	if !slices.ContainsFunc(lines, func(l Line) bool { return l.State == string(rt.StateRunning) }) {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c jobColumn) bool { return c.Head == "READ-AGO" })
	}
	t := table.Table{}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for i := range lines {
		row := make([]string, len(columns))
		for k := range columns {
			row[k] = columns[k].cell(&lines[i])
		}
		t.Rows = append(t.Rows, row)
	}
	dropped, err := t.Write(w, width)
	if err != nil || len(dropped) == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "(--wide for %s)\n", strings.Join(dropped, ", "))
	return err
}
