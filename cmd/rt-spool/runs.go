package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/spool"
)

// unreadable returns the error of files that are damaged or that this user may not read.
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

// entriesOf returns the runs of the jobs, or all of the spool if none is named.
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

// findRuns returns the runs of a JOB. If it finds none and there are files that this user
// may not read, the error names them: the run may be one of these.
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

// spoolThere checks that the spool directory exists, unless all jobs are paths of files.
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

// runsOf returns the runs of the one JOB of the command line, on the node of --node.
func runsOf(c *cli.Context) ([]spool.Entry, error) {
	if c.NArg() != 1 {
		return nil, rtcli.Usage("%s takes one JOB; rt-spool ls shows what there is", c.Command.Name)
	}
	return runsFor(c, c.Args().First())
}

// runsFor returns the runs of a job, on the node of --node.
func runsFor(c *cli.Context, job string) ([]spool.Entry, error) {
	entries, err := entriesOf(c, []string{job})
	if err != nil {
		return nil, err
	}
	node := c.String("node")
	if node == "" {
		return entries, nil
	}
	entries = slices.DeleteFunc(entries, func(e spool.Entry) bool { return e.Run.Node != node })
	if len(entries) == 0 {
		return nil, fmt.Errorf("job %s on node %s: %w", job, node, spool.ErrNotFound)
	}
	return entries, nil
}

func paths(entries []spool.Entry) []string {
	return texts(entries, func(e spool.Entry) string { return e.Path })
}

func texts[T any](list []T, text func(T) string) (out []string) {
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}
