package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/joblist"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// advise makes the advice of the jobs from the user's earlier runs in the spool. The runs of the
// jobs are in entries.
func advise(c *cli.Context, jobs []*report.Job, entries []spool.Entry) error {
	if c.String("node") != "" { // one node does not show what the job needs, and the others are not missing
		for _, j := range jobs {
			j.Missing, j.MissingNodes = 0, nil
		}
		return nil
	}
	ended := slices.DeleteFunc(slices.Clone(jobs), func(j *report.Job) bool { return j.State == rt.StateRunning }) // the others get no advice
	if len(ended) == 0 {
		entries = nil
	}
	read := func(path string) (*report.Summary, error) { return summarize(c, path) }
	earlier, err := joblist.Earlier(c.Context, ended, entries, read)
	if err != nil {
		return err
	}
	all := slices.Concat(report.Jobs(earlier), jobs)
	slices.SortStableFunc(all, func(a, b *report.Job) int { return a.Start.Compare(b.Start) })
	for _, j := range jobs {
		j.Advise(all)
	}
	return nil
}

// stepOf explains that a step of a job has no run of its own.
func stepOf(c *cli.Context, err error) error {
	job, step, found := strings.Cut(c.Args().First(), ".")
	isNone := errors.Is(err, spool.ErrNotFound)
	if !found || !isNone {
		return err
	}
	if _, ofJob := runsFor(c, job); ofJob != nil {
		return err
	}
	return errkind.With(err, fmt.Errorf("job %s has no run of step %s of its own: report %s has its steps", job, step, job))
}
