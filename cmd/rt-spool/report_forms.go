package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/report"
)

// reportForms are the values of report --format.
var reportForms = []string{"text", "json", "markdown", "oneline"}

func checkReportForm(c *cli.Context) error {
	if form := c.String("format"); !slices.Contains(reportForms, form) {
		return rtcli.Usage("report --format %q: it is one of %s", form, strings.Join(reportForms, ", "))
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
		return writeArray(c, report.RollUp(c.Args().First(), summaries))
	}
	for i, j := range jobs {
		if i > 0 && form != "oneline" {
			fmt.Fprintln(w)
		}
		var err error
		switch form {
		case "markdown":
			err = report.WriteMarkdown(w, j, o)
		case "oneline":
			err = report.WriteOneLine(w, j, o)
		default:
			err = report.WriteText(w, j, o)
		}
		if err != nil {
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
	return writeArray(c, a)
}

// writeArray writes an array in the form of --format, which is not JSON.
func writeArray(c *cli.Context, a *report.Array) error {
	w := c.App.Writer
	switch c.String("format") {
	case "markdown":
		return report.WriteArrayMarkdown(w, a)
	case "oneline":
		return report.WriteArrayOneLine(w, a)
	}
	if err := report.WriteArray(w, a, textOptions(c)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  report %s shows one of them\n", a.Tasks[0].Job)
	return err
}

// noteOthers notes on standard error that an array has only one task here.
func noteOthers(c *cli.Context, jobs []*report.Job) {
	if len(jobs) != 1 {
		return
	}
	r := &jobs[0].Runs[0].Run
	if array, ok := r.ArrayJobID.Get(); ok && c.Args().First() == fmt.Sprint(array) {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "%s is the only task of array %d here: %s", jobs[0].Label, array, report.Others)
	}
}

// isArrayOf reports whether all runs are tasks of one array.
func isArrayOf(list []*report.Summary) bool {
	return !slices.ContainsFunc(list, func(s *report.Summary) bool { return !s.Run.ArrayTaskID.Valid() })
}
