package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/joblist"
	"github.com/resource-tracker/rt/report"
)

type jobColumn struct {
	rtcli.Column
	cell func(*joblist.Line) string
}

// jobColumns are the columns of the table.
var jobColumns = []jobColumn{
	{rtcli.Column{Head: "JOB"}, func(l *joblist.Line) string { return l.Job }},
	{rtcli.Column{Head: "USER", Drop: 2, IsName: true}, func(l *joblist.Line) string { return cmp.Or(l.User, "-") }},
	{rtcli.Column{Head: "ACCOUNT", Drop: 9, IsName: true}, func(l *joblist.Line) string { return cmp.Or(l.Account, "-") }},
	{rtcli.Column{Head: "PARTITION", Drop: 8, IsName: true}, func(l *joblist.Line) string { return cmp.Or(l.Partition, "-") }},
	{rtcli.Column{Head: "NAME", Drop: 3, IsName: true}, func(l *joblist.Line) string { return cmp.Or(l.Name, "-") }},
	{rtcli.Column{Head: "STATE"}, func(l *joblist.Line) string { return l.State }},
	{rtcli.Column{Head: "STARTED", Drop: 6}, func(l *joblist.Line) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{rtcli.Column{Head: "ELAPSED"}, func(l *joblist.Line) string { return report.Clock(l.ElapsedSecs) }},
	{rtcli.Column{Head: "READ-AGO", Drop: 10}, func(l *joblist.Line) string { return report.Clock(l.ReadAgo(time.Now())) }}, // left out if no job runs
	{rtcli.Column{Head: "TIME%", Drop: 4}, func(l *joblist.Line) string { return decimal(l.TimePct) }},
	{rtcli.Column{Head: "NODES", Drop: 7}, nodesOf},
	{rtcli.Column{Head: "CORES", Drop: 5}, coresOf},
	{rtcli.Column{Head: "CPU%"}, func(l *joblist.Line) string { return decimal(l.CPUPct) }},
	{rtcli.Column{Head: "MEM%"}, func(l *joblist.Line) string { return decimal(l.MemoryPct) }},
	{rtcli.Column{Head: "GPU%", Drop: 1}, func(l *joblist.Line) string { return decimal(l.GPUPct) }},
	{rtcli.Column{Head: "UNUSED-CORE-H"}, unusedOf},
}

// nodesOf returns the number of nodes, "1/2" if one of two is missing.
func nodesOf(l *joblist.Line) string {
	if l.MissingNodes > 0 {
		return fmt.Sprintf("%d/%d", l.Nodes, uint64(l.Nodes)+l.MissingNodes)
	}
	return fmt.Sprint(l.Nodes)
}

func coresOf(l *joblist.Line) string {
	if n, ok := l.Cores.Get(); ok {
		return fmt.Sprint(n)
	}
	return "-"
}

func unusedOf(l *joblist.Line) string {
	if h, ok := l.UnusedHours.Get(); ok {
		return fmt.Sprintf("%.2f", h)
	}
	return "-"
}

func decimal(v rt.Opt[float64]) string {
	if x, ok := v.Get(); ok {
		return fmt.Sprintf("%.1f", x)
	}
	return "-"
}

func printJobTable(w io.Writer, lines []joblist.Line, width int) error {
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	columns := jobColumns
	if !slices.ContainsFunc(lines, func(l joblist.Line) bool { return l.State == string(rt.StateRunning) }) {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c jobColumn) bool { return c.Head == "READ-AGO" })
	}
	t := rtcli.Table{}
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
