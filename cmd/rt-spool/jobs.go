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
	"github.com/resource-tracker/rt/cmd/internal/progress"
	"github.com/resource-tracker/rt/report/runs"
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
			&cli.StringFlag{Name: "since", Usage: "only jobs that ran after `TIME`: 2026-03-01, 2026-03-01T12:30, 12:30, or 7d, 12h, 30m ago"},
			&cli.StringFlag{Name: "until", Usage: "only jobs that ran before `TIME`"},
			&cli.StringFlag{Name: "sort", Value: sortStart, Usage: "`ORDER` of the jobs: start, the oldest first, or waste, most unused core-hours first"},
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
	filter, err := jobFilterOf(c, time.Now())
	if err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	site, err := siteOf(c, cfg.Site)
	if err != nil {
		return err
	}
	dirs, denied, err := localDirs(c, cfg, site)
	if err != nil {
		return err
	}
	for _, err := range denied {
		warnDenied(c, err)
	}
	bar := progress.New(c.App.ErrWriter, c.Bool("json"))
	jobs, err := runs.Read(c.Context, dirs, runs.Options{Cache: cacheDir(), Progress: bar})
	bar.Clear()
	if err != nil {
		return err
	}
	siteErr := joinSite(c, site, jobs, &filter)
	if siteErr != nil && len(dirs) == 0 {
		return siteErr
	}
	lines := jobs.Lines(filter, c.Bool("duplicates"))
	if c.String("sort") == sortWaste {
		runs.SortByWaste(lines)
	}
	if err := printJobLines(c, lines); err != nil {
		return err
	}
	if jobs.IndexErr != nil {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "%v: the list is complete, but the next one takes as long", jobs.IndexErr)
	}
	noteDenied(c, jobs.Denied)
	if siteErr != nil {
		siteErr = fmt.Errorf("%w; only the jobs of the local spool are shown", siteErr)
	}
	return errors.Join(runs.Unreadable(jobs.Problems, jobs.Files-jobs.Denied), siteErr)
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
	if c.NArg() > 0 {
		return f, rtcli.Usage("jobs takes no JOB: rt-spool report %s shows one", c.Args().First())
	}
	if c.Bool("json") && c.Bool("csv") {
		return f, rtcli.Usage("give --json or --csv, not both")
	}
	if order := c.String("sort"); order != sortStart && order != sortWaste {
		return f, rtcli.Usage("--sort %q: it is start or waste", order)
	}
	f.Users, f.Accounts, f.Partitions = commaList(c.String("user")), commaList(c.String("account")), commaList(c.String("partition"))
	for _, s := range commaList(strings.ToLower(c.String("state"))) {
		state, ok := runs.State(s)
		if !ok {
			return f, rtcli.Usage("--state %q: it is one of %s", s, strings.Join(runs.States, ", "))
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
			return f, rtcli.Usage("--%s %q: give a time such as 2026-03-01, 2026-03-01T12:30 or 12:30, or how long ago, such as 7d, 12h or 30m", flag, text)
		}
		*to = t
	}
	return f, nil
}

func commaList(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}
