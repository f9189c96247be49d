package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report/runs"
)

const watchVerb = "watch"

// watchCommand is rt-spool top under the name that users look for.
func watchCommand() *cli.Command {
	top := topCommand()
	top.Name, top.Usage = watchVerb, "watch the jobs of this node, or one job, on a full screen"
	return top
}

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:        "compare",
		Usage:       "show two jobs next to each other",
		ArgsUsage:   "A B",
		Description: "The flags --json and --csv print the two jobs for a program.",
		Action:      runCompare,
	}
}

func runCompare(c *cli.Context) error {
	names, err := jobNames(c.Args().Slice())
	if err != nil {
		return err
	}
	if len(names) != 2 {
		return rtcli.Usage("compare takes two jobs, such as rt-job compare 4711 4712")
	}
	o, err := userOptions(c)
	if err != nil {
		return err
	}
	var pair []runs.Line
	for _, name := range names {
		name, err := lastJob(c, name)
		if err != nil {
			return err
		}
		jobs, _, err := loadJob(c, name)
		switch {
		case err != nil:
			return err
		case len(jobs) > 1:
			return rtcli.Usage("compare: %s has %d tasks or parts: give one of them, such as %s", name, len(jobs), jobs[0].Label)
		}
		pair = append(pair, runs.LineOf(jobs[0], o.Prices))
	}
	if c.Bool("json") || c.Bool("csv") {
		return printJobLines(c, pair)
	}
	return runs.PrintComparison(c.App.Writer, pair[0], pair[1])
}

func historyCommand() *cli.Command {
	return &cli.Command{
		Name:      "history",
		Usage:     "show all jobs of a name: what each used, as a table and a plot",
		ArgsUsage: "NAME",
		Description: `The flags --user, --allusers, --account, --partition, --state, --since,
and also --until, --json, --csv and --ascii, work as in rt-job. Without
the flag --since all recorded jobs of the name are shown.`,
		Action: runHistory,
	}
}

func runHistory(c *cli.Context) error {
	if c.NArg() != 1 {
		return rtcli.Usage("history takes the NAME of jobs, or a pattern such as 'relax-*'")
	}
	lines, jobs, err := namedJobs(c, c.Args().First())
	if err != nil {
		return err
	}
	slices.SortStableFunc(lines, func(a, b runs.Line) int { return a.Start.Compare(b.Start) })
	switch {
	case c.Bool("json") || c.Bool("csv"):
		err = printJobLines(c, lines)
	case len(lines) == 0:
		return errors.Join(fmt.Errorf("no jobs have the name %s", c.Args().First()), jobs.problems(c))
	default:
		err = runs.PrintHistory(c.App.Writer, lines, rtcli.TerminalWidth(c.App.Writer), !utf8Locale(), colorsOf(c, jobs.cfg.Waste))
	}
	return errors.Join(err, jobs.problems(c))
}
