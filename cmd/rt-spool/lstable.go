package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/report"
)

// lsColumn is a column of ls.
type lsColumn struct {
	rtcli.Column
	cell func(*listed) string // of a readable run
}

var lsColumns = []lsColumn{
	{rtcli.Column{Head: "JOB"}, handle},
	{rtcli.Column{Head: "NODE", Drop: 4}, func(l *listed) string { return cmp.Or(l.Node, "-") }},
	{rtcli.Column{Head: "USER", Drop: 1, IsName: true}, func(l *listed) string { return cmp.Or(l.User, "-") }},
	{rtcli.Column{Head: "NAME", Drop: 2, IsName: true}, func(l *listed) string { return cmp.Or(l.Meta.JobName, "-") }},
	{rtcli.Column{Head: "STATE"}, stateOf},
	{rtcli.Column{Head: "OUTCOME"}, func(l *listed) string { return cmp.Or(string(l.Outcome), "-") }},
	{rtcli.Column{Head: "EXIT", Drop: 5}, func(l *listed) string { return exitOf(l.Run) }},
	{rtcli.Column{Head: "STARTED", Drop: 7}, func(l *listed) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{rtcli.Column{Head: "ELAPSED", Drop: 3}, elapsedOf},
	{rtcli.Column{Head: "READINGS", Drop: 6}, func(l *listed) string { return strconv.FormatInt(l.Snapshots, 10) }},
	{rtcli.Column{Head: "UNSENT"}, func(l *listed) string { return strconv.FormatInt(l.Unsent, 10) }},
	{rtcli.Column{Head: "KIB"}, kib},
	{rtcli.Column{Head: "AGE"}, ageOf},
}

func kib(l *listed) string { return strconv.FormatInt((l.SizeBytes+1023)/1024, 10) }

// printRuns prints a table of runs that fits into width, and the errors of files.
func printRuns(w io.Writer, runs []listed, width int) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	t := rtcli.Table{}
	for _, c := range lsColumns {
		t.Columns = append(t.Columns, c.Column)
	}
	for i := range runs {
		row := make([]string, len(lsColumns))
		for k := range lsColumns {
			row[k] = lsColumns[k].of(&runs[i])
		}
		t.Rows = append(t.Rows, row)
	}
	dropped, err := t.Write(w, width)
	for i := range runs {
		err = errors.Join(err, printUnreadable(w, &runs[i]))
	}
	if err != nil || len(dropped) == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "(--wide for %s)\n", strings.Join(dropped, ", "))
	return err
}

// printUnreadable prints the error of a file that cannot be read.
func printUnreadable(w io.Writer, l *listed) error {
	if l.Error == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "unreadable:", rt.PrintableLines(l.Error))
	return err
}

// of returns the cell of a run, also of one that cannot be read.
func (c *lsColumn) of(l *listed) string {
	switch {
	case l.Run != nil:
		return c.cell(l)
	case c.Head == "NAME":
		return filepath.Base(l.Path)
	case c.Head == "STATE":
		return "unreadable"
	case c.Head == "KIB":
		return kib(l)
	}
	return "-"
}

// handle returns the name of the run for users: its job, else the name of its file.
func handle(l *listed) string {
	if l.JobID.Valid() {
		return l.Label()
	}
	return strings.TrimSuffix(filepath.Base(l.Path), ".db")
}

// stateOf returns the run's state. A run with a dead tracker is neither running nor ended.
func stateOf(l *listed) string {
	if l.State == rt.StateRunning && !l.Live {
		return "abandoned"
	}
	return string(l.State)
}

func exitOf(r *rt.Run) string {
	code, ok := r.ExitCode.Get()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%d:%d", code, r.ExitSignal.Or(0))
}

func elapsedOf(l *listed) string {
	var secs rt.Opt[float64]
	switch {
	case !l.End.IsZero():
		secs.Set(l.End.Sub(l.Start).Seconds())
	case l.Live:
		secs.Set(time.Since(l.Start).Seconds())
	}
	return report.Clock(secs)
}

// ageOf returns how long ago the run ended, or began if it has not ended.
func ageOf(l *listed) string {
	since := l.End
	if since.IsZero() {
		since = l.Start
	}
	switch age := time.Since(since); {
	case age >= 48*time.Hour:
		return fmt.Sprintf("%dd", age/(24*time.Hour))
	case age >= time.Hour:
		return fmt.Sprintf("%dh", age/time.Hour)
	default:
		return fmt.Sprintf("%dm", age/time.Minute)
	}
}
