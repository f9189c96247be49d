package main

import (
	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report/runs"
)

func lsCommand() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the runs of the spool, or those of JOB",
		ArgsUsage: "[JOB...]",
		Flags: []cli.Flag{
			jsonFlag,
			&cli.BoolFlag{Name: "wide", Aliases: []string{"w"}, Usage: "all columns, also on a narrow terminal"},
		},
		Action: runLs,
	}
}

func runLs(c *cli.Context) error {
	entries, err := entriesOf(c, c.Args().Slice())
	if err != nil {
		return err
	}
	entries = leaveOutDenied(c, entries)
	out := make([]runs.Listed, 0, len(entries))
	var bad []error
	for i := range entries {
		if err := entries[i].Err; err != nil {
			bad = append(bad, err)
		}
		out = append(out, runs.ListedAs(&entries[i]))
	}
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, out)
	} else {
		err = runs.PrintList(c.App.Writer, out, tableWidth(c))
	}
	if err != nil {
		return err
	}
	return runs.Unreadable(bad, len(entries))
}
