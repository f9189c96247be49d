package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
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

// listColumns are the columns of a list, for readable runs.
var listColumns = []table.Column[Listed]{
	{Head: "JOB", Cell: handle},
	{Head: "NODE", Drop: 4, Cell: func(l *Listed) string { return cmp.Or(l.Node, "-") }},
	{Head: "USER", Drop: 1, IsName: true, Cell: func(l *Listed) string { return cmp.Or(l.User, "-") }},
	{Head: "NAME", Drop: 2, IsName: true, Cell: func(l *Listed) string { return cmp.Or(l.Meta.JobName, "-") }},
	{Head: "STATE", Cell: stateOf},
	{Head: "OUTCOME", Cell: func(l *Listed) string { return cmp.Or(string(l.Outcome), "-") }},
	{Head: "EXIT", Drop: 5, Cell: func(l *Listed) string { return exitOf(l.Run) }},
	{Head: "STARTED", Drop: 7, Cell: func(l *Listed) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{Head: "ELAPSED", Drop: 3, Cell: elapsedOf},
	{Head: "READINGS", Drop: 6, Cell: func(l *Listed) string { return strconv.FormatInt(l.Snapshots, 10) }},
	{Head: "UNSENT", Cell: func(l *Listed) string { return strconv.FormatInt(l.Unsent, 10) }},
	{Head: "KIB", Cell: kib},
	{Head: "AGE", Cell: ageOf},
}

func kib(l *Listed) string { return strconv.FormatInt((l.SizeBytes+1023)/1024, 10) }

// PrintList prints a table of runs that fits into width, all columns if width is 0, and the errors
// of files.
func PrintList(w io.Writer, runs []Listed, width int) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	columns := slices.Clone(listColumns)
	for i := range columns {
		columns[i].Cell = cellOf(columns[i])
	}
	dropped, err := table.Write(w, columns, runs, width)
	for i := range runs {
		err = errors.Join(err, printUnreadable(w, &runs[i]))
	}
	return errors.Join(err, table.WriteDropped(w, dropped))
}

// printUnreadable prints the error of a file that cannot be read.
func printUnreadable(w io.Writer, l *Listed) error {
	if l.Error == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "unreadable:", printable.Lines(l.Error))
	return err
}

// cellOf returns the cells of a column, also for runs that cannot be read.
func cellOf(c table.Column[Listed]) func(*Listed) string {
	return func(l *Listed) string {
		switch {
		case l.Run != nil:
			return c.Cell(l)
		case c.Head == "NAME":
			return filepath.Base(l.Path)
		case c.Head == "STATE":
			return "unreadable"
		case c.Head == "KIB":
			return kib(l)
		}
		return "-"
	}
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
