package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report/runs"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check the files of the spool, or those of JOB, and print the problems of each",
		ArgsUsage: "[JOB...]",
		Flags:     []cli.Flag{jsonFlag},
		Action:    runVerify,
	}
}

func runVerify(c *cli.Context) error {
	entries, err := entriesOf(c, c.Args().Slice())
	if err != nil {
		return err
	}
	checked, problems := runs.Check(c.Context, entries)
	if c.Bool("json") {
		return errors.Join(rtcli.PrintJSON(c.App.Writer, checked), problems)
	}
	for i := range checked {
		checked[i].Print(c.App.Writer)
	}
	return problems
}
