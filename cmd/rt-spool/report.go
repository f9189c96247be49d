package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/convert/gempba"
	"github.com/resource-tracker/rt/internal/convert/powerapi"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "show what a job used of what it had, a screen for each of its nodes and attempts",
		ArgsUsage: "JOB",
		Flags: []cli.Flag{
			jsonFlag, nodeFlag,
			&cli.BoolFlag{Name: "array", Usage: "one screen for all tasks of the array JOB: percentiles and outliers"},
			&cli.BoolFlag{Name: "ascii", Usage: "draw with ASCII characters only; the default without a UTF-8 locale"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also show the source of the outcome, such as epilog or sacct"},
		},
		Action: runReport,
	}
}

var nodeFlag = &cli.StringFlag{Name: "node", Usage: "only the run on the node `NAME`"}

func runReport(c *cli.Context) error {
	entries, err := runsOf(c)
	if err != nil {
		return err
	}
	summaries := make([]*report.Summary, 0, len(entries))
	for _, e := range entries {
		s, err := summarize(c, e.Path)
		if err != nil {
			return err
		}
		summaries = append(summaries, s)
	}
	if c.Bool("array") {
		return reportArray(c, summaries)
	}
	report.Together(summaries)
	if c.Bool("json") {
		return rtcli.PrintJSON(c.App.Writer, summaries)
	}
	return writeScreens(c, summaries)
}

func reportArray(c *cli.Context, summaries []*report.Summary) error {
	a := report.RollUp(c.Args().First(), summaries)
	if len(a.Tasks) == 0 {
		return rtcli.Usage("report --array: %s has no tasks of an array; leave --array out", a.Job)
	}
	if c.Bool("json") {
		return rtcli.PrintJSON(c.App.Writer, a)
	}
	return report.WriteArray(c.App.Writer, a)
}

// manyNodes is the number of nodes from which a job's nodes are not shown one by one.
const manyNodes = 5

// writeScreens writes a screen for each run; the sum of many nodes replaces them.
func writeScreens(c *cli.Context, summaries []*report.Summary) error {
	o := report.TextOptions{ASCII: c.Bool("ascii") || !utf8Locale(), Verbose: c.Bool("verbose"), Zone: time.Local}
	written := map[*report.Nodes]bool{}
	for i, s := range summaries {
		n := s.Nodes
		isShown := n == nil || len(n.Nodes) < manyNodes
		isNew := n != nil && !written[n]
		hasText := isShown || isNew
		if i > 0 && hasText {
			fmt.Fprintln(c.App.Writer)
		}
		if isNew {
			written[n] = true
			if err := report.WriteNodes(c.App.Writer, s); err != nil {
				return err
			}
			if isShown {
				fmt.Fprintln(c.App.Writer)
			} else {
				fmt.Fprintln(c.App.Writer, "  --node NODE shows one of them")
			}
		}
		if !isShown {
			continue
		}
		if err := report.WriteText(c.App.Writer, s, o); err != nil {
			return err
		}
	}
	return nil
}

func summarize(c *cli.Context, path string) (*report.Summary, error) {
	r, err := spool.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	last, err := r.LastSeq()
	if err != nil {
		return nil, err
	}
	events, err := r.Events()
	if err != nil {
		return nil, err
	}
	s, err := report.Summarize(r.Run(), events, r.Snapshots(c.Context, 1, last))
	if err != nil {
		return nil, err
	}
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	s.GemPBA, err = gempba.Figures(c.Context, r)
	if err != nil {
		return nil, err
	}
	s.ShareEnergy(cfg.Energy.IdleWatts, cfg.Energy.CO2e)
	s.Others, err = powerapi.Sensors(c.Context, r)
	if err != nil {
		return nil, err
	}
	if s.Run.State == rt.StateRunning {
		live, err := r.Live()
		if err != nil {
			return nil, err
		}
		s.Abandoned = !live
	}
	return s, nil
}

// utf8Locale reports whether the terminal has block characters.
func utf8Locale() bool {
	v := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
}
