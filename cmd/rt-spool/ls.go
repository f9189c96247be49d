package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/spool"
)

func lsCommand() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the runs of the spool, or those of JOB",
		ArgsUsage: "[JOB...]",
		Flags: []cli.Flag{
			jsonFlag,
			&cli.BoolFlag{Name: "wide", Aliases: []string{"w"}, Usage: "all columns, however narrow the terminal is"},
		},
		OnUsageError: onUsageError,
		Action:       runLs,
	}
}

// listed is one run of ls --json: the run's own fields, and what the file says.
type listed struct {
	*rt.Run     `json:",omitempty"`
	Path        string     `json:"path"`
	Live        bool       `json:"live"`
	SizeBytes   int64      `json:"size_bytes"`
	Snapshots   int64      `json:"snapshots"`
	Unsent      int64      `json:"unsent"`   // snapshots that no receiver has confirmed
	AgeSecs     *float64   `json:"age_secs"` // since its start
	Delivered   bool       `json:"delivered"`
	DeliveredAt *time.Time `json:"delivered_at"`
	Error       string     `json:"error,omitempty"`
}

func runLs(c *cli.Context) error {
	entries, err := entriesOf(c, c.Args().Slice())
	if err != nil {
		return err
	}
	out := make([]listed, 0, len(entries))
	var bad []error
	for i := range entries {
		if err := entries[i].Err; err != nil {
			bad = append(bad, err)
		}
		out = append(out, listedAs(&entries[i]))
	}
	width := widthOf(c.App.Writer)
	if c.Bool("wide") {
		width = 0
	}
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, out)
	} else {
		err = printRuns(c.App.Writer, out, width)
	}
	if err != nil {
		return err
	}
	return unreadable(bad, len(entries))
}

// listedAs is a file of the spool as it is listed.
func listedAs(e *spool.Entry) listed {
	l := listed{Path: e.Path, Live: e.Live, SizeBytes: e.Size, Snapshots: e.Snapshots}
	if e.Err != nil {
		l.Error = e.Err.Error()
		return l
	}
	l.Run, l.Unsent = &e.Run, e.Unsent
	age := time.Since(e.Run.Start).Round(time.Second).Seconds()
	l.AgeSecs = &age
	if l.Delivered = !e.DeliveredAt.IsZero(); l.Delivered {
		l.DeliveredAt = &e.DeliveredAt
	}
	return l
}

// unreadable says that some files cannot be read: damaged, or not for us.
func unreadable(bad []error, of int) error {
	denied := 0
	for _, err := range bad {
		if errors.Is(err, fs.ErrPermission) {
			denied++
		}
	}
	switch {
	case len(bad) == 0:
		return nil
	case denied == len(bad):
		return fmt.Errorf("%d of %d files may not be read by this user: run rt-spool as root or as the spool's owner", denied, of)
	}
	return fmt.Errorf("%w: %d of %d files cannot be read", errDamaged, len(bad), of)
}

// entriesOf returns the runs of the jobs, or all of the spool where none is named.
func entriesOf(c *cli.Context, jobs []string) ([]spool.Entry, error) {
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	if err := spoolThere(cfg.Spool.Dir, jobs...); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return spool.List(cfg.Spool.Dir)
	}
	var out []spool.Entry
	for _, job := range jobs {
		found, err := findRuns(cfg.Spool.Dir, job)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// findRuns finds the runs that a person means. Where it finds none among files that
// this user may not read, it says so: the run may be one of these.
func findRuns(dir, job string) ([]spool.Entry, error) {
	found, err := spool.FindJob(dir, job)
	if !errors.Is(err, spool.ErrNotFound) {
		return found, err
	}
	entries, listErr := spool.List(dir)
	if listErr != nil {
		return nil, err
	}
	var denied []error
	for i := range entries {
		if errors.Is(entries[i].Err, fs.ErrPermission) {
			denied = append(denied, entries[i].Err)
		}
	}
	if len(denied) == 0 {
		return nil, err
	}
	return nil, rtcli.WithKind(spool.ErrNotFound, fmt.Errorf("job %q in %s is none of the runs that can be read: %w", job, dir, unreadable(denied, len(entries))))
}

// spoolThere says what to do where the spool directory does not exist, unless all
// that is asked for are files.
func spoolThere(dir string, jobs ...string) error {
	isFile := func(job string) bool {
		return strings.HasSuffix(job, ".db") || strings.ContainsRune(job, filepath.Separator)
	}
	if len(jobs) > 0 && !slices.ContainsFunc(jobs, func(job string) bool { return !isFile(job) }) {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return rtcli.WithKind(err, fmt.Errorf("there is no spool directory %s: --spool DIR names another one, and a user's own is ~/.local/state/rt", dir))
	}
	return nil
}

// handle is what a person calls the run by: its job, or else its file's name.
func handle(l *listed) string {
	if l.JobID.Valid() {
		return l.Label()
	}
	return strings.TrimSuffix(filepath.Base(l.Path), ".db")
}

// stateOf is the run's state; a run whose tracker has died is neither running nor ended.
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
	switch {
	case !l.End.IsZero():
		return l.End.Sub(l.Start).Round(time.Second / 10).String()
	case l.Live:
		return time.Since(l.Start).Round(time.Second).String()
	}
	return "-"
}

// ageOf is how long ago the run ended, or began where it has not.
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

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
