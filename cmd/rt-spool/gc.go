package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload/drain"
)

func gcCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "remove runs that were delivered long ago, and limit the size of the spool",
		Description: `gc takes these steps:

1. Remove the temporary files that a crash left more than an hour ago.
2. Remove the runs that were delivered longer ago than --retain.
3. If the spool is then larger than --max-size, remove other delivered runs,
   the oldest first.
4. If the spool is still too large, thin the runs that have ended and are not
   delivered. Thinning removes old readings and keeps the totals.

gc does not change runs that are tracked or cannot be read. It removes runs
that are not delivered only with --undelivered.
Each rt-spool drain does the same at its end.

   rt-spool gc --dry-run                     what gc would do
   rt-spool gc --retain 24h                  keep a day
   rt-spool gc --max-size 64MiB              make room
   rt-spool gc --undelivered --retain 720h   also undelivered runs`,
		Flags: []cli.Flag{
			jsonFlag,
			&cli.DurationFlag{Name: "retain", DefaultText: "spool.retain", Usage: "remove runs that were delivered longer ago than `T`"},
			&cli.StringFlag{Name: "max-size", DefaultText: "spool.quota_node", Usage: "reduce the spool to `SIZE`, such as 512MiB; 0 means no limit"},
			&cli.BoolFlag{Name: "undelivered", Usage: "also remove runs that have ended and are not delivered: their data is lost"},
			&cli.BoolFlag{Name: "dry-run", Usage: "change nothing, and print what would be done"},
		},
		Action: withConfig(runGC),
	}
}

func runGC(c *cli.Context, cfg config.Config) error {
	o, err := gcOptions(c, cfg.Spool)
	if err != nil {
		return err
	}
	if err := runs.CheckExists(cfg.Spool.Dir); err != nil {
		return err
	}
	if err := ownSpool(cfg.Spool); err != nil {
		return err
	}
	out, err := drain.Collect(c.Context, cfg.Spool.Dir, o)
	switch {
	case c.Bool("json"):
		return errors.Join(err, rtcli.PrintJSON(c.App.Writer, &out))
	case err != nil && len(out.Files) == 0: // no file was checked
		return err
	}
	return errors.Join(err, printCollected(c.App.Writer, &out))
}

func gcOptions(c *cli.Context, cfg config.Spool) (spool.GC, error) {
	o := spool.GC{
		Retain: cfg.Retain.Duration, Bytes: cfg.QuotaNode.Bytes, Now: time.Now(),
		Undelivered: c.Bool("undelivered"), DryRun: c.Bool("dry-run"),
	}
	if c.NArg() > 0 {
		return o, rtcli.Usage("gc takes no arguments; it works on all runs of the spool")
	}
	if c.IsSet("retain") {
		o.Retain = c.Duration("retain")
	}
	if o.Retain < 0 {
		return o, rtcli.Usage("--retain cannot be negative")
	}
	if c.IsSet("max-size") {
		var size config.Size
		if err := size.UnmarshalText([]byte(c.String("max-size"))); err != nil {
			return o, rtcli.Usage("--max-size: %w", err)
		}
		o.Bytes = size.Bytes
	}
	return o, nil
}

func printCollected(w io.Writer, g *drain.Collected) error {
	if g.AnotherRuns {
		_, err := fmt.Fprintln(w, "a drain or another gc works on this spool; nothing was done")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range g.Files {
		action := f.Action
		if f.Error != "" {
			action = "not " + f.Action
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", action, printable.Text(filepath.Base(f.Path)), config.Size{Bytes: f.Freed}, printable.Text(cmp.Or(f.Error, f.Reason)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	sum := "freed %d KiB; the spool takes %d KiB\n"
	if g.DryRun {
		sum = "nothing was changed; it would free %d KiB, and the spool would take %d KiB\n"
	}
	_, err := fmt.Fprintf(w, sum, g.FreedBytes>>10, g.SpoolBytes>>10)
	return err
}
