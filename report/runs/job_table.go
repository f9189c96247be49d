package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
)

// jobColumns are the columns of the table.
var jobColumns = []table.Column[Line]{
	{Head: "JOB", Cell: func(l *Line) string { return l.Job }},
	{Head: "USER", Drop: 2, IsName: true, Cell: func(l *Line) string { return cmp.Or(l.User, "-") }},
	{Head: "ACCOUNT", Drop: 9, IsName: true, Cell: func(l *Line) string { return cmp.Or(l.Account, "-") }},
	{Head: "PARTITION", Drop: 8, IsName: true, Cell: func(l *Line) string { return cmp.Or(l.Partition, "-") }},
	{Head: "NAME", Drop: 3, IsName: true, Cell: func(l *Line) string { return cmp.Or(l.Name, "-") }},
	{Head: "STATE", Cell: func(l *Line) string { return report.WithSlurmState(l.State, l.SlurmState) }},
	{Head: "STARTED", Drop: 6, Cell: func(l *Line) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{Head: "ELAPSED", Cell: func(l *Line) string { return report.Clock(l.ElapsedSecs) }},
	{Head: "READ-AGO", Drop: 10, Cell: func(l *Line) string { return report.Clock(l.ReadAgo(time.Now())) }}, // left out if no job runs
	{Head: "TIME%", Drop: 4, Cell: func(l *Line) string { return decimal(l.TimePct) }},
	{Head: "NODES", Drop: 7, Cell: nodesOf},
	{Head: "CORES", Drop: 5, Cell: func(l *Line) string { return report.Number(l.Cores, "%d") }},
	{Head: "CPU%", Cell: func(l *Line) string { return l.CPUMark.Sign(decimal(l.CPUPct)) }},
	{Head: "MEM%", Cell: func(l *Line) string { return l.MemoryMark.Sign(decimal(l.MemoryPct)) }},
	{Head: "GPU%", Drop: 1, Cell: func(l *Line) string { return decimal(l.GPUPct) }},
	{Head: "UNUSED-CORE-H", Drop: 11, Cell: func(l *Line) string { return l.UnusedMark.Sign(report.Number(l.UnusedHours, "%.2f")) }},
	{Head: "WASTE", Cell: func(l *Line) string { return l.WasteMark.Sign(report.Number(l.WasteHours, "%.2f")) }},
}

// nodesOf returns the number of nodes, "1/2" if one of two is missing.
func nodesOf(l *Line) string {
	if l.MissingNodes > 0 {
		return fmt.Sprintf("%d/%d", l.Nodes, uint64(l.Nodes)+l.MissingNodes)
	}
	return fmt.Sprint(l.Nodes)
}

func decimal(v rt.Opt[float64]) string { return report.Number(v, "%.1f") }

// PrintJobs prints lines as a table that fits into width characters, all columns if width is 0.
func PrintJobs(w io.Writer, lines []Line, width int) error {
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	columns := jobColumns
	if !slices.ContainsFunc(lines, func(l Line) bool { return l.State == string(rt.StateRunning) }) {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c table.Column[Line]) bool { return c.Head == "READ-AGO" })
	}
	dropped, err := table.Write(w, columns, lines, width)
	return errors.Join(err, table.WriteDropped(w, dropped))
}
