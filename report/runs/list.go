package runs

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
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// Listed is one run of a list: the fields of the run and of the file.
type Listed struct {
	*rt.Run   `json:",omitempty"`
	Path      string   `json:"path"`
	Live      bool     `json:"live"`
	SizeBytes int64    `json:"size_bytes"`
	Snapshots int64    `json:"snapshots"`
	Unsent    int64    `json:"unsent"`   // snapshots that no receiver has confirmed
	AgeSecs   *float64 `json:"age_secs"` // since its start
	// SuspendedSecs is how long the job was suspended, which is no run time.
	SuspendedSecs rt.Opt[float64] `json:"suspended_secs,omitzero"`
	Delivered     bool            `json:"delivered"`
	DeliveredAt   *time.Time      `json:"delivered_at"`
	Error         string          `json:"error,omitempty"`
}

// ListedAs returns the row of a file of the spool.
func ListedAs(e *spool.Entry) Listed {
	l := Listed{Path: e.Path, Live: e.Live, SizeBytes: e.Size, Snapshots: e.Snapshots}
	if e.Err != nil {
		l.Error = e.Err.Error()
		return l
	}
	l.Run, l.Unsent, l.SuspendedSecs = &e.Run, e.Unsent, e.SuspendedSecs
	age := time.Since(e.Run.Start).Round(time.Second).Seconds()
	l.AgeSecs = &age
	l.Delivered = !e.DeliveredAt.IsZero()
	if l.Delivered {
		l.DeliveredAt = &e.DeliveredAt
	}
	return l
}

// listColumn is a column of a list.
type listColumn struct {
	table.Column
	cell func(*Listed) string // of a readable run
}

var listColumns = []listColumn{
	{table.Column{Head: "JOB"}, handle},
	{table.Column{Head: "NODE", Drop: 4}, func(l *Listed) string { return cmp.Or(l.Node, "-") }},
	{table.Column{Head: "USER", Drop: 1, IsName: true}, func(l *Listed) string { return cmp.Or(l.User, "-") }},
	{table.Column{Head: "NAME", Drop: 2, IsName: true}, func(l *Listed) string { return cmp.Or(l.Meta.JobName, "-") }},
	{table.Column{Head: "STATE"}, stateOf},
	{table.Column{Head: "OUTCOME"}, func(l *Listed) string { return cmp.Or(string(l.Outcome), "-") }},
	{table.Column{Head: "EXIT", Drop: 5}, func(l *Listed) string { return exitOf(l.Run) }},
	{table.Column{Head: "STARTED", Drop: 7}, func(l *Listed) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{table.Column{Head: "ELAPSED", Drop: 3}, elapsedOf},
	{table.Column{Head: "READINGS", Drop: 6}, func(l *Listed) string { return strconv.FormatInt(l.Snapshots, 10) }},
	{table.Column{Head: "UNSENT"}, func(l *Listed) string { return strconv.FormatInt(l.Unsent, 10) }},
	{table.Column{Head: "KIB"}, kib},
	{table.Column{Head: "AGE"}, ageOf},
}

func kib(l *Listed) string { return strconv.FormatInt((l.SizeBytes+1023)/1024, 10) }

// PrintList prints a table of runs that fits into width, all columns if width is 0, and the errors
// of files.
func PrintList(w io.Writer, runs []Listed, width int) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	t := table.Table{}
	for _, c := range listColumns {
		t.Columns = append(t.Columns, c.Column)
	}
	for i := range runs {
		row := make([]string, len(listColumns))
		for k := range listColumns {
			row[k] = listColumns[k].of(&runs[i])
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
func printUnreadable(w io.Writer, l *Listed) error {
	if l.Error == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "unreadable:", printable.Lines(l.Error))
	return err
}

// of returns the cell of a run, also of one that cannot be read.
func (c *listColumn) of(l *Listed) string {
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
func handle(l *Listed) string {
	if l.JobID.Valid() {
		return l.Label()
	}
	return strings.TrimSuffix(filepath.Base(l.Path), ".db")
}

// stateOf returns the run's state. A run with a dead tracker is neither running nor ended.
func stateOf(l *Listed) string {
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

func elapsedOf(l *Listed) string {
	var secs rt.Opt[float64]
	switch {
	case !l.End.IsZero():
		secs.Set(l.End.Sub(l.Start).Seconds())
	case l.Live:
		secs.Set(time.Since(l.Start).Seconds())
	}
	if v, ok := secs.Get(); ok {
		secs.Set(max(0, v-l.SuspendedSecs.Or(0)))
	}
	return report.Clock(secs)
}

// ageOf returns how long ago the run ended, or began if it has not ended.
func ageOf(l *Listed) string {
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
