package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
)

// entriesOf returns the runs of the jobs, or all of the spool if none is named.
func entriesOf(c *cli.Context, jobs []string) ([]spool.Entry, error) {
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	dirs := spoolDirs(c, cfg.Spool)
	if err := runs.CheckExists(dirs[0], jobs...); err != nil {
		return nil, err
	}
	return runs.Find(dirs, jobs)
}

// runsFor returns the runs of a job, on the node of --node.
func runsFor(c *cli.Context, job string) ([]spool.Entry, error) {
	entries, err := entriesOf(c, []string{job})
	if err != nil {
		return nil, err
	}
	return runs.OnNode(entries, job, c.String("node"))
}

// ownSpool returns an error if root works on the directory of another user.
func ownSpool(cfg config.Spool) error {
	if err := runs.CheckOwner(cfg.Dir, cfg.User); err != nil {
		return misconfigured(err)
	}
	return nil
}

// makeSpool creates the directory of --spool; the configured one is created with the node.
func makeSpool(c *cli.Context, dir string) error {
	if !c.IsSet("spool") {
		return runs.CheckExists(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the spool directory: %w", err)
	}
	return nil
}

// spoolDirs returns the directories of the runs that are shown. They are the directory of --spool,
// or else the configured one and, for a user without root, the user's own.
func spoolDirs(c *cli.Context, cfg config.Spool) []string {
	own := rtcli.OwnSpool()
	if c.IsSet("spool") || os.Geteuid() == 0 || own == cfg.Dir {
		return []string{cfg.Dir}
	}
	if st, err := os.Stat(own); err != nil || !st.IsDir() {
		return []string{cfg.Dir}
	}
	if _, err := os.Stat(cfg.Dir); errors.Is(err, fs.ErrNotExist) {
		return []string{own}
	}
	return []string{cfg.Dir, own}
}

// leaveOutDenied removes the files that this user may not read, and prints their number.
func leaveOutDenied(c *cli.Context, entries []spool.Entry) []spool.Entry {
	all := len(entries)
	entries = slices.DeleteFunc(entries, func(e spool.Entry) bool { return runs.IsOfOthers(e.Err) })
	noteDenied(c, all-len(entries))
	return entries
}

// noteDenied prints the number of files that are left out because this user may not read them.
func noteDenied(c *cli.Context, n int) {
	switch {
	case n == 1:
		say(c, "1 file that this user may not read is left out")
	case n > 1:
		say(c, "%d files that this user may not read are left out", n)
	}
}
