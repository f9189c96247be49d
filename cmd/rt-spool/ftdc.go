package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/tui"
)

func ftdcCommand() *cli.Command {
	return &cli.Command{
		Name:      "ftdc",
		Usage:     "show the metrics of FTDC files: a list, plots, CSV or JSON",
		ArgsUsage: "FILE...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "metric", Aliases: []string{"m"}, Usage: "only metrics with names that match the regular expression `RE`"},
			&cli.StringFlag{Name: "from", Usage: "nothing before `TIME`: 2026-03-01T12:00:00Z, 12:00:30, or such as 10m after the first reading, -10m before the last"},
			&cli.StringFlag{Name: "to", Usage: "nothing after `TIME`"},
			&cli.BoolFlag{Name: "rate", Aliases: []string{"r"}, Usage: "growth per second instead of values, for counters"},
			&cli.BoolFlag{Name: "plot", Aliases: []string{"p"}, Usage: "draw each metric over time"},
			&cli.BoolFlag{Name: "csv", Usage: "print a row for each reading"},
			jsonFlag,
			&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "select metrics to draw on a full screen; its last line names the keys"},
			&cli.BoolFlag{Name: "any-time", Usage: "continue where the clock was set"},
		},
		Action: runFTDC,
	}
}

// maxPlots is how many metrics are drawn at most.
const maxPlots = 50

func runFTDC(c *cli.Context) error {
	v, err := ftdcView(c)
	switch {
	case errors.Is(err, tui.ErrTimeRange):
		return errkind.With(rtcli.ErrUsage, err)
	case err != nil:
		return err
	case c.Bool("csv"):
		return rtcli.Buffered(c.App.Writer, v.WriteCSV)
	case c.Bool("interactive") && !onTerminal(c):
		return rtcli.Usage("--interactive needs a terminal; --plot and --csv do not")
	case c.Bool("interactive"):
		return v.Interact(c.Context, os.Stdin, c.App.Writer.(*os.File))
	}
	sum, damage := v.Summarize()
	if damage != nil && !errors.Is(damage, tui.ErrDamaged) {
		return damage
	}
	if v.Overlap() {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: the files overlap in time: the data of several recorders is shown as if one had written it")
	}
	n := sum.Metrics()
	switch {
	case c.Bool("json"):
		err = rtcli.PrintJSON(c.App.Writer, v.Document(sum, damage))
	case n == 0 && damage != nil:
	case n == 0:
		_, err = fmt.Fprintln(c.App.Writer, "no metrics: nothing matches --metric, --from and --to")
	case c.Bool("plot") && n > maxPlots:
		return rtcli.Usage("%d metrics match and at most %d are drawn; choose with --metric", n, maxPlots)
	case c.Bool("plot"):
		err = v.WritePlots(c.App.Writer, sum, cmp.Or(rtcli.TerminalWidth(c.App.Writer), 80))
	default:
		err = v.WriteList(c.App.Writer, sum)
	}
	return errors.Join(err, damage)
}

// ftdcView opens what the command line selects.
func ftdcView(c *cli.Context) (*tui.FTDCView, error) {
	modes := 0
	for _, name := range []string{"plot", "csv", "json", "interactive"} {
		if c.Bool(name) {
			modes++
		}
	}
	if modes > 1 {
		return nil, rtcli.Usage("--plot, --csv, --json and --interactive exclude each other")
	}
	if c.NArg() == 0 {
		return nil, rtcli.Usage("ftdc takes the FILEs to show, or - for standard input")
	}
	o := tui.FTDCOptions{
		Files: c.Args().Slice(), Stdin: os.Stdin, From: c.String("from"), To: c.String("to"),
		Rate: c.Bool("rate"), AnyTime: c.Bool("any-time"),
	}
	if re := c.String("metric"); re != "" {
		var err error
		o.Match, err = regexp.Compile(re)
		if err != nil {
			return nil, rtcli.Usage("--metric: %w", err)
		}
	}
	return tui.OpenFTDC(o)
}
