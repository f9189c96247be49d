package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/delivery"
	"github.com/resource-tracker/rt/spool"
)

func gcCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "remove runs that were delivered long ago, and limit the size of the spool",
		Description: `In this order: temporary files of a crash an hour ago; runs that were
delivered longer ago than --retain; if the spool is still larger than
--max-size, other delivered runs, the oldest first; then runs that have ended
and are not delivered are thinned, which keeps their totals.
Runs that are tracked or cannot be read stay as they are, and only
--undelivered removes what is not delivered.
Each rt-spool drain does the same at its end.

   rt-spool gc --dry-run                     what would be removed
   rt-spool gc --retain 24h                  delivered a day ago
   rt-spool gc --max-size 64MiB              make room
   rt-spool gc --undelivered --retain 720h   also what was not delivered`,
		Flags: []cli.Flag{
			jsonFlag,
			&cli.DurationFlag{Name: "retain", DefaultText: "spool.retain", Usage: "remove runs that were delivered `T` ago"},
			&cli.StringFlag{Name: "max-size", DefaultText: "spool.quota_node", Usage: "bring the spool to `SIZE`, such as 512MiB; 0 for no limit"},
			&cli.BoolFlag{Name: "undelivered", Usage: "treat runs that have ended as if they were delivered: their data is lost"},
			&cli.BoolFlag{Name: "dry-run", Usage: "change nothing, and print what would be done"},
		},
		Action: runGC,
	}
}

// gcDone is the JSON document of gc.
type gcDone struct {
	DryRun     bool     `json:"dry_run"`
	SpoolBytes int64    `json:"spool_bytes"` // size of all files of the directory afterwards
	FreedBytes int64    `json:"freed_bytes"`
	Files      []gcFile `json:"files"`
	// AnotherRuns: nothing was done because a drain or another gc is running.
	AnotherRuns bool `json:"another_drain_runs"`
}

// gcFile is one file that was removed or thinned, or would be.
type gcFile struct {
	Path      string `json:"path"`
	Job       string `json:"job,omitempty"`
	Node      string `json:"node,omitempty"`
	Delivered bool   `json:"delivered"`
	Action    string `json:"action"` // "removed" or "thinned", in a dry run "would remove" or "would thin"
	Reason    string `json:"reason"`
	SizeBytes int64  `json:"size_bytes"` // before
	Freed     int64  `json:"freed_bytes"`
	Dropped   int64  `json:"snapshots_dropped"`
	Error     string `json:"error,omitempty"`
}

// wouldBe are the actions of a dry run.
var wouldBe = map[string]string{spool.Removed: "would remove", spool.Thinned: "would thin"}

func runGC(c *cli.Context) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	o, err := gcOptions(c, cfg.Spool)
	if err != nil {
		return err
	}
	if err := spoolThere(cfg.Spool.Dir); err != nil {
		return err
	}
	out := gcDone{DryRun: o.DryRun, Files: []gcFile{}}
	err = out.collect(c.Context, cfg.Spool.Dir, o)
	switch {
	case c.Bool("json"):
		return errors.Join(err, rtcli.PrintJSON(c.App.Writer, &out))
	case err != nil && len(out.Files) == 0: // no file was checked
		return err
	}
	return errors.Join(err, out.print(c.App.Writer))
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

// collect removes and thins runs with the lock of the directory.
func (g *gcDone) collect(ctx context.Context, dir string, o spool.GC) error {
	unlock, err := delivery.LockSpool(ctx, dir)
	if errors.Is(err, spool.ErrLocked) {
		g.AnotherRuns = true
		return nil
	}
	if err != nil {
		return err
	}
	done, total, err := spool.Collect(ctx, dir, o)
	g.SpoolBytes = total
	failed := 0
	for _, d := range done {
		f := gcFile{Path: d.Path, Node: d.Run.Node, Delivered: d.Delivered, Action: d.Action, Reason: d.Reason,
			SizeBytes: d.Size, Freed: d.Freed, Dropped: d.Dropped}
		if o.DryRun {
			f.Action = wouldBe[d.Action]
		}
		if d.Run.JobID.Valid() {
			f.Job = d.Run.Label()
		}
		if d.Err != nil {
			f.Error = d.Err.Error()
			failed++
		}
		g.FreedBytes += d.Freed
		g.Files = append(g.Files, f)
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d files could not be removed or thinned", failed, len(done)))
	}
	return errors.Join(err, unlock())
}

func (g *gcDone) print(w io.Writer) error {
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
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", action, filepath.Base(f.Path), config.Size{Bytes: f.Freed}, cmp.Or(f.Error, f.Reason))
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
