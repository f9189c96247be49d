package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report"
)

func checkReportForm(c *cli.Context) error {
	if form := c.String("format"); !slices.Contains(report.Forms, form) {
		return rtcli.Usage("report --format %q: it is one of %s", form, strings.Join(report.Forms, ", "))
	}
	return nil
}

// writeJobs writes the jobs in the form of --format.
func writeJobs(c *cli.Context, jobs []*report.Job, summaries []*report.Summary) error {
	w, o := c.App.Writer, textOptions(c)
	form := c.String("format")
	if form == "json" {
		return rtcli.PrintJSON(w, jobs)
	}
	if isArrayOf(summaries) && len(jobs) > 1 {
		return report.WriteArray(w, report.RollUp(c.Args().First(), summaries), form, o)
	}
	for i, j := range jobs {
		if i > 0 && form != "oneline" {
			fmt.Fprintln(w)
		}
		if err := report.Write(w, j, form, o); err != nil {
			return err
		}
	}
	return nil
}

func textOptions(c *cli.Context) report.TextOptions {
	return report.TextOptions{
		ASCII: c.Bool("ascii") || !utf8Locale(), Verbose: c.Bool("verbose"), Explain: c.Bool("explain"),
		Width: rtcli.TerminalWidth(c.App.Writer), Zone: time.Local, Now: time.Now(),
	}
}

func reportArray(c *cli.Context, summaries []*report.Summary) error {
	a := report.RollUp(c.Args().First(), summaries)
	if !isArrayOf(summaries) {
		return rtcli.Usage("report --array: %s is not an array; leave --array out", a.Job)
	}
	if c.Bool("json") || c.String("format") == "json" {
		return rtcli.PrintJSON(c.App.Writer, a)
	}
	return report.WriteArray(c.App.Writer, a, c.String("format"), textOptions(c))
}

// isArrayOf reports whether all runs are tasks of one array.
func isArrayOf(list []*report.Summary) bool {
	return !slices.ContainsFunc(list, func(s *report.Summary) bool { return !s.Run.ArrayTaskID.Valid() })
}
