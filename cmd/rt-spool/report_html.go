package main

import (
	"io"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/html"
	"github.com/resource-tracker/rt/site/client"
)

// writeHTML writes the page of the runs. found.Entries and summaries have the same order.
func writeHTML(c *cli.Context, name string, found *client.FoundJob, summaries []*report.Summary) error {
	report.Together(summaries)
	job := html.Page{Name: name, Jobs: report.Jobs(summaries), Zone: time.Local}
	if isArrayOf(summaries) && len(job.Jobs) > 1 {
		job.Array = report.RollUp(job.Name, summaries)
	} else if err := advise(c, job.Jobs, found); err != nil {
		return err
	}
	for i, s := range summaries {
		run, err := html.ReadRun(c.Context, found.Entries[i].Path, s, time.Local)
		if err != nil {
			return err
		}
		job.Runs = append(job.Runs, run)
	}
	write := func(w io.Writer) error { return html.Write(w, &job) }
	if file := c.String("html"); file != "-" {
		return rtcli.WriteFile(file, write)
	}
	return rtcli.Buffered(c.App.Writer, write)
}

// mostPageRuns is the maximum number of runs on a page, because each adds plots and text.
const mostPageRuns = 300

// checkPage refuses --html with n runs, or with flags that exclude it.
func checkPage(c *cli.Context, n int) error {
	for _, other := range []string{"json", "array"} {
		if c.Bool(other) {
			return rtcli.Usage("report --html and --%s exclude each other", other)
		}
	}
	if n > mostPageRuns {
		return rtcli.Usage("report --html shows at most %d runs, and the job has %d: select one task of an array or a --node; report --array summarizes all", mostPageRuns, n)
	}
	return nil
}
