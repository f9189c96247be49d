package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "show how much of its allocation a job used on all of its nodes, and what to request next time",
		ArgsUsage: "JOB",
		Flags: []cli.Flag{
			jsonFlag, nodeFlag,
			&cli.StringFlag{Name: "format", Value: "text", Usage: "write the jobs as `FORM`: text, json, markdown or oneline"},
			&cli.BoolFlag{Name: "explain", Usage: "also show how the advice was made"},
			&cli.BoolFlag{Name: "array", Usage: "show all tasks of the array JOB on one screen, with percentiles and outliers"},
			&cli.StringFlag{Name: "html", Usage: "write a page with plots of all runs to `FILE`, or to standard output (-); it needs no network"},
			&cli.BoolFlag{Name: "ascii", Usage: "draw with ASCII characters only, as is the default without a UTF-8 locale"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also show the source of the outcome, and which sensors the node does not have"},
		},
		Action: runReport,
	}
}

var nodeFlag = &cli.StringFlag{Name: "node", Usage: "show only the run on the node `NAME`"}

func runReport(c *cli.Context) error {
	if err := checkReportForm(c); err != nil {
		return err
	}
	found, err := jobOf(c)
	if err != nil {
		return stepOf(c, err)
	}
	if err := fetch(c, found); err != nil {
		return err
	}
	return found.Close(reportJob(c, c.Args().First(), found))
}

// reportJob reports the job that is called name.
func reportJob(c *cli.Context, name string, found *client.FoundJob) error {
	if c.IsSet("html") {
		if err := checkPage(c, len(found.Entries)); err != nil {
			return err
		}
	}
	summaries, damage, err := readSummaries(c, found)
	if err != nil {
		return err
	}
	if c.IsSet("html") {
		return errors.Join(writeHTML(c, name, found, summaries), damage)
	}
	return errors.Join(writeSummaries(c, name, found, summaries), damage)
}

// readSummaries sorts the runs of a job, and returns their summaries. damage describes damaged files.
func readSummaries(c *cli.Context, found *client.FoundJob) (summaries []*report.Summary, damage, err error) {
	slices.SortStableFunc(found.Entries, func(a, b spool.Entry) int { // else the oldest first
		return cmp.Or(cmp.Compare(a.Run.ArrayTaskID.Or(0), b.Run.ArrayTaskID.Or(0)), cmp.Compare(a.Run.HetJobOffset.Or(0), b.Run.HetJobOffset.Or(0)),
			cmp.Compare(a.Run.Attempt, b.Run.Attempt), cmp.Compare(a.Run.Node, b.Run.Node))
	})
	for _, e := range found.Entries {
		s, err := summarize(c, e.Path)
		found.Mark(s, e.Path)
		if s == nil {
			return nil, nil, err
		}
		damage = errors.Join(damage, err)
		s.SetArray(&e.Run)
		summaries = append(summaries, s)
	}
	return summaries, damage, nil
}

func writeSummaries(c *cli.Context, name string, found *client.FoundJob, summaries []*report.Summary) error {
	switch {
	case c.Bool("array"):
		return reportArray(c, summaries)
	case c.Bool("json"): // the runs one by one
		report.Together(summaries)
		return rtcli.PrintJSON(c.App.Writer, summaries)
	}
	jobs := report.Jobs(summaries)
	if err := advise(c, jobs, found); err != nil {
		return err
	}
	if text := report.OnlyTask(name, jobs); text != "" {
		say(c, "%s", text)
	}
	return writeJobs(c, name, jobs, summaries)
}

// summarize returns the report of a run. If the file is damaged, it covers the snapshots before
// the damage, and the error describes the damage.
func summarize(c *cli.Context, path string) (*report.Summary, error) {
	r, err := spool.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	var damage, failed error
	note := func(err error) {
		switch {
		case !spool.IsDamage(err):
			failed = errors.Join(failed, err)
		case damage == nil:
			damage = err
		}
	}
	events, err := r.Events()
	note(err)
	s, err := report.Summarize(r.Run(), events, spool.Undamaged(r.Snapshots(c.Context, 1, 0), note))
	if err != nil {
		return nil, errors.Join(err, damage, failed)
	}
	s.GemPBA, err = gempba.Figures(c.Context, r)
	note(err)
	s.Others, err = powerapi.Sensors(c.Context, r)
	note(err)
	if failed != nil {
		return nil, failed
	}
	s.ShareEnergy(cfg.Energy.IdleWatts, cfg.Energy.CO2e)
	if s.Run.State == rt.StateRunning {
		live, err := r.Live()
		if err != nil {
			return nil, err
		}
		s.Abandoned = !live
	}
	if damage != nil {
		s.Damage = damage.Error()
		s.MarkAtLeast()
	}
	return s, damage
}

// utf8Locale reports whether the terminal has block characters.
func utf8Locale() bool {
	v := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
}

func checkReportForm(c *cli.Context) error {
	if form := c.String("format"); !slices.Contains(report.Forms, form) {
		return rtcli.Usage("report --format %q: it is one of %s", form, strings.Join(report.Forms, ", "))
	}
	return nil
}

// writeJobs writes the jobs in the form of --format.
func writeJobs(c *cli.Context, name string, jobs []*report.JobSummary, summaries []*report.Summary) error {
	w, o := c.App.Writer, textOptions(c)
	form := c.String("format")
	if form == "json" {
		return rtcli.PrintJSON(w, jobs)
	}
	if isArrayOf(summaries) && len(jobs) > 1 {
		return report.WriteArray(w, report.RollUp(name, summaries), form, o)
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
