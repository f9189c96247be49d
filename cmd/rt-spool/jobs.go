package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/progress"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/slurm/accounting"
)

func jobsCommand() *cli.Command {
	return &cli.Command{
		Name:  "jobs",
		Usage: "list the jobs of the spool, a line for each, with how much of their resources they used",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Usage: "only jobs of these `USERS`, separated by commas"},
			&cli.StringFlag{Name: "account", Usage: "only jobs of these `ACCOUNTS`"},
			&cli.StringFlag{Name: "partition", Usage: "only jobs in these `PARTITIONS`"},
			&cli.StringFlag{Name: "state", Usage: "only jobs in these `STATES`, such as running,oom,timeout"},
			&cli.StringFlag{Name: "name", Usage: "only jobs with a name that matches the `PATTERN`, such as 'relax-*'"},
			&cli.StringFlag{Name: "since", Usage: "only jobs that ran after `TIME`: 2026-03-01, 2026-03-01T12:30, 12:30, yesterday, now-2days, or 1w, 7d, 12h, 30m ago"},
			&cli.StringFlag{Name: "until", Usage: "only jobs that ran before `TIME`"},
			&cli.StringFlag{Name: "sort", Value: sortStart, Usage: "`ORDER` of the jobs: start, the oldest first, or waste, the most wasteful first"},
			&cli.BoolFlag{Name: "duplicates", Aliases: []string{"D"}, Usage: "a line for each attempt of a job that was requeued, as in sacct -D"},
			jsonFlag,
			&cli.BoolFlag{Name: "csv", Usage: "print CSV with a header line"},
			&cli.BoolFlag{Name: "wide", Aliases: []string{"w"}, Usage: "all columns, also on a narrow terminal"},
		},
		Action: runJobs,
	}
}

const (
	sortStart = "start"
	sortWaste = "waste"
)

func runJobs(c *cli.Context) error {
	if c.NArg() > 0 {
		return rtcli.Usage("jobs takes no JOB: rt-spool report %s shows one", c.Args().First())
	}
	if order := c.String("sort"); order != sortStart && order != sortWaste {
		return rtcli.Usage("--sort %q: it is start or waste", order)
	}
	filter, err := jobFilterOf(c, time.Now())
	if err != nil {
		return err
	}
	jobs, err := collect(c, &filter)
	if err != nil {
		return err
	}
	lines := jobs.Lines(filter, c.Bool("duplicates"), jobs.prices)
	if c.String("sort") == sortWaste {
		runs.SortByWaste(lines)
	}
	if err := printJobLines(c, lines); err != nil {
		return err
	}
	noteDenied(c, jobs.Denied)
	return jobs.problems(c)
}

// collected are the runs of the local spool and of the site.
type collected struct {
	*runs.Collected
	cfg     config.Config
	prices  report.Prices
	waiting []accounting.Queued // jobs of the user in the queue of Slurm
	filter  runs.Filter         // of the list
	siteErr error               // why the runs of the site are missing
}

// collect reads the runs of the local spool and of the site that a filter selects. It adds the names that the users
// have at the site to the filter.
func collect(c *cli.Context, filter *runs.Filter) (*collected, error) {
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	site, err := siteOf(c, cfg.Site)
	if err != nil {
		return nil, err
	}
	dirs, denied, err := localDirs(c, cfg, site)
	if err != nil {
		return nil, err
	}
	for _, err := range denied {
		warnDenied(c, err)
	}
	bar := progress.New(c.App.ErrWriter, c.Bool("json"))
	jobs, err := runs.Read(c.Context, dirs, runs.Options{Cache: cacheDir(), Progress: bar})
	bar.Clear()
	if err != nil {
		return nil, err
	}
	siteErr := joinSite(c, site, jobs, filter)
	if siteErr != nil && len(dirs) == 0 {
		return nil, siteErr
	}
	return &collected{Collected: jobs, cfg: cfg, prices: pricesOf(cfg.Waste), siteErr: siteErr}, nil
}

// isLocal reports whether other machines were not asked, because no site is configured.
func (j *collected) isLocal(c *cli.Context) bool { return j.cfg.Site.URL == "" && !c.IsSet("spool") }

// problems prints that the index was not written, and returns what could not be read.
func (j *collected) problems(c *cli.Context) error {
	if j.IndexErr != nil {
		say(c, "%v: the list is complete, but the next one takes as long", j.IndexErr)
	}
	siteErr := j.siteErr
	if siteErr != nil {
		siteErr = fmt.Errorf("%w; only the jobs of the local spool are shown", siteErr)
	}
	return errors.Join(runs.Unreadable(j.Problems, j.Files-j.Denied), siteErr)
}

func pricesOf(w config.Waste) report.Prices {
	return report.Prices{GPU: w.GPU, GiB: w.GiB, CoreHour: w.CoreHour, Currency: w.Currency}
}

// cacheDir returns the user's cache directory; empty if there is none.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rt")
}

func printJobLines(c *cli.Context, lines []runs.Line) error {
	switch {
	case c.Bool("json"):
		return rtcli.PrintJSON(c.App.Writer, lines)
	case c.Bool("csv"):
		return csv.NewWriter(c.App.Writer).WriteAll(runs.Records(lines))
	}
	return runs.PrintJobs(c.App.Writer, lines, tableWidth(c))
}

// tableWidth returns the width of a table, 0 for any.
func tableWidth(c *cli.Context) int {
	if c.Bool("wide") {
		return 0
	}
	return rtcli.TerminalWidth(c.App.Writer)
}

func jobFilterOf(c *cli.Context, now time.Time) (f runs.Filter, err error) {
	if c.Bool("json") && c.Bool("csv") {
		return f, rtcli.Usage("give --json or --csv, not both")
	}
	var states []string
	for flag, to := range map[string]*[]string{"user": &f.Users, "account": &f.Accounts, "partition": &f.Partitions, "state": &states} {
		*to = commaList(c.String(flag))
		if isEmpty := c.IsSet(flag) && len(*to) == 0; isEmpty { // such as of a variable that is not set: it selects not all
			return f, rtcli.Usage("--%s %q: it names none", flag, c.String(flag))
		}
	}
	for _, s := range states {
		s = strings.ToLower(s)
		state, ok := runs.State(s)
		if !ok {
			return f, rtcli.Usage("--state %q: it is one of %s, or one of Slurm's, such as TO or PENDING", s, strings.Join(runs.States, ", "))
		}
		f.States = append(f.States, state)
	}
	f.Name = c.String("name")
	if _, err := path.Match(f.Name, ""); err != nil {
		return f, rtcli.Usage("--name %q: the brackets of the pattern do not match", f.Name)
	}
	for flag, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := c.String(flag)
		if text == "" {
			continue
		}
		t, ok := runs.ParseTime(text, now)
		if !ok {
			return f, rtcli.Usage("--%s %q: give a time such as 2026-03-01, 2026-03-01T12:30, 12:30, yesterday or now-2days, or how long ago, such as 1w, 7d, 12h or 30m", flag, text)
		}
		*to = t
	}
	switch {
	case f.Since.After(now):
		return f, rtcli.Usage("--since %q is in the future", c.String("since"))
	case !f.Until.IsZero() && f.Until.Before(f.Since):
		return f, rtcli.Usage("--until %q is before --since %q", c.String("until"), c.String("since"))
	}
	return f, nil
}

func commaList(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}
