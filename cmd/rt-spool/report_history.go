package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
)

// advise makes the advice of the jobs from the user's earlier runs in the spool and at the site. found
// has the runs of the jobs.
func advise(c *cli.Context, jobs []*report.JobSummary, found *client.FoundJob) error {
	if c.String("node") != "" { // one node does not show what the job needs, and the others are not missing
		for _, j := range jobs {
			j.Missing, j.MissingNodes = 0, nil
		}
		return nil
	}
	ended := slices.DeleteFunc(slices.Clone(jobs), func(j *report.JobSummary) bool { return j.State == rt.StateRunning }) // the others get no advice
	from, err := earlierOf(c, ended, found)
	if err != nil {
		return err
	}
	earlier, err := runs.Earlier(c.Context, ended, found.Entries, from)
	if err != nil {
		return err
	}
	all := slices.Concat(report.Jobs(earlier), jobs)
	slices.SortStableFunc(all, func(a, b *report.JobSummary) int { return a.Start.Compare(b.Start) })
	for _, j := range jobs {
		j.Advise(all)
	}
	return nil
}

// earlierOf returns where the earlier runs of jobs are. They are in the directories of the jobs'
// runs, and with a site also in the local spool and at the site.
func earlierOf(c *cli.Context, jobs []*report.JobSummary, found *client.FoundJob) (from runs.EarlierSource, err error) {
	from.Read = func(path string) (*report.Summary, error) { return summarize(c, path) }
	for _, e := range found.Entries {
		if dir := filepath.Dir(e.Path); !slices.Contains(from.Dirs, dir) && !found.IsFetched(e.Path) {
			from.Dirs = append(from.Dirs, dir)
		}
	}
	if found.Site == nil {
		return from, nil
	}
	cfg, err := load(c)
	if err != nil {
		return from, err
	}
	dirs, _, err := localDirs(c, cfg, found.Site) // findJob has warned
	if err != nil {
		return from, err
	}
	from.Dirs = slices.Compact(slices.Sorted(slices.Values(append(from.Dirs, dirs...))))
	if isKnown := found.Err == nil; isKnown {
		from.Site, found.Err = found.Site.Earlier(c.Context, jobs)
	}
	return from, nil
}

// stepOf explains that a step of a job has no run of its own.
func stepOf(c *cli.Context, err error) error {
	job, step, found := strings.Cut(c.Args().First(), ".")
	isNone := errors.Is(err, spool.ErrNotFound)
	if !found || !isNone {
		return err
	}
	if _, ofJob := findJob(c, job); ofJob != nil {
		return err
	}
	return errkind.With(err, fmt.Errorf("job %s has no run of step %s of its own: report %s has its steps", job, step, job))
}
