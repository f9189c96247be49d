package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/sonar"
)

func sonarSlurmCommand() *cli.Command {
	return &cli.Command{
		Name:  "slurm",
		Usage: "print the jobs that ended recently, from sacct",
		Flags: append(sonarForms(),
			&cli.IntFlag{Name: "window", Value: 90, Usage: "jobs of the last `MINUTES`"},
			&cli.StringFlag{Name: "span", Usage: "jobs of these days: `FROM,TO`, each yyyy-mm-dd"},
			&cli.BoolFlag{Name: "deluge", Usage: "also jobs that wait or run"},
			&cli.DurationFlag{Name: "deadline", Value: 3 * time.Minute, Usage: "the time limit of sacct is `T`"},
		),
		Action: runSonarSlurm,
	}
}

func runSonarSlurm(c *cli.Context) error {
	asJSON, err := sonarJSON(c, false)
	if err != nil {
		return err
	}
	args, err := sacctArgs(c, time.Now())
	if err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	program := cmp.Or(sacctProgram(cfg.Drain), "sacct") // which then reports that it is not there
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("deadline"))
	defer cancel()
	jobs, err := sonar.SacctJobs(ctx, program, args)
	if len(jobs) == 0 && err != nil {
		return sonar.WriteFailure(c.App.Writer, err, asJSON)
	}
	return errors.Join(err, rtcli.Buffered(c.App.Writer, func(w io.Writer) error { return sonar.WriteJobs(w, jobs, asJSON) }))
}

// sacctArgs returns the arguments of the call of sacct.
func sacctArgs(c *cli.Context, now time.Time) ([]string, error) {
	from, to := now.Add(-time.Duration(c.Int("window"))*time.Minute), now
	switch {
	case c.IsSet("span") && c.IsSet("window"):
		return nil, rtcli.Usage("--span and --window exclude each other")
	case c.Int("window") <= 0:
		return nil, rtcli.Usage("--window %d: minutes, 1 or more", c.Int("window"))
	case c.Duration("deadline") <= 0:
		return nil, rtcli.Usage("--deadline %s: it must be more than nothing", c.Duration("deadline"))
	case c.IsSet("span"):
		first, last, _ := strings.Cut(c.String("span"), ",")
		var err1, err2 error
		from, err1 = time.ParseInLocation(time.DateOnly, first, time.Local)
		to, err2 = time.ParseInLocation(time.DateOnly, last, time.Local)
		if err1 != nil || err2 != nil || to.Before(from) {
			return nil, rtcli.Usage("--span %q: two days as 2026-03-01,2026-03-02, the earlier first", c.String("span"))
		}
		to = to.AddDate(0, 0, 1).Add(-time.Second) // all of the last day
	}
	return sonar.SacctArgs(from, to, c.Bool("deluge")), nil
}
