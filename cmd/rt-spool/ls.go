package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/spool"
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

// listed is one run of ls --json: the fields of the run and of the file.
type listed struct {
	*rt.Run     `json:",omitempty"`
	Path        string     `json:"path"`
	Live        bool       `json:"live"`
	SizeBytes   int64      `json:"size_bytes"`
	Snapshots   int64      `json:"snapshots"`
	Unsent      int64      `json:"unsent"`   // snapshots that no receiver has confirmed
	AgeSecs     *float64   `json:"age_secs"` // since its start
	Delivered   bool       `json:"delivered"`
	DeliveredAt *time.Time `json:"delivered_at"`
	Error       string     `json:"error,omitempty"`
}

func runLs(c *cli.Context) error {
	entries, err := entriesOf(c, c.Args().Slice())
	if err != nil {
		return err
	}
	entries = leaveOutDenied(c, entries)
	out := make([]listed, 0, len(entries))
	var bad []error
	for i := range entries {
		if err := entries[i].Err; err != nil {
			bad = append(bad, err)
		}
		out = append(out, listedAs(&entries[i]))
	}
	width := rtcli.TerminalWidth(c.App.Writer)
	if c.Bool("wide") {
		width = 0
	}
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, out)
	} else {
		err = printRuns(c.App.Writer, out, width)
	}
	if err != nil {
		return err
	}
	return unreadable(bad, len(entries))
}

// listedAs returns the row of a file of the spool.
func listedAs(e *spool.Entry) listed {
	l := listed{Path: e.Path, Live: e.Live, SizeBytes: e.Size, Snapshots: e.Snapshots}
	if e.Err != nil {
		l.Error = e.Err.Error()
		return l
	}
	l.Run, l.Unsent = &e.Run, e.Unsent
	age := time.Since(e.Run.Start).Round(time.Second).Seconds()
	l.AgeSecs = &age
	l.Delivered = !e.DeliveredAt.IsZero()
	if l.Delivered {
		l.DeliveredAt = &e.DeliveredAt
	}
	return l
}
