package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

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
