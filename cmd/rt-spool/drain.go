package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/progress"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/drain"
)

func drainCommand() *cli.Command {
	return &cli.Command{
		Name:  "drain",
		Usage: "deliver all ended runs to Sentinel; made for cron",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print what was done as one JSON document"},
			&cli.DurationFlag{Name: "jitter", DefaultText: "drain.jitter", Usage: "wait for a random time of at most `T` first"},
			&cli.DurationFlag{Name: "deadline", DefaultText: "drain.deadline", Usage: "stop after `T` and leave the rest to the next drain"},
			&cli.IntFlag{Name: "concurrency", DefaultText: "drain.concurrency", Usage: "deliver `N` runs at the same time"},
			&cli.BoolFlag{Name: "live", Usage: "also upload the new readings of runs that are still tracked"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be done, and change nothing"},
			&cli.StringFlag{Name: "again-since", Usage: "also deliver again what was delivered since `TIME`, to a site that was restored from a backup"},
		},
		Action: withConfig(runDrain),
	}
}

// drainGCPercent makes the Go runtime collect garbage earlier than by default (100). A drain shares
// the node with jobs, and creates the record of each run in memory.
const drainGCPercent = 50

// maxConcurrency is the maximum of drain.concurrency: the memory for open spool files has a limit.
const maxConcurrency = 64

func runDrain(c *cli.Context, cfg config.Config) error {
	debug.SetGCPercent(drainGCPercent)
	if err := overrideDrain(c, &cfg.Drain); err != nil {
		return err
	}
	if err := ownSpool(cfg.Spool); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return dryRun(c, cfg)
	}
	dir, err := drainDirectory(cfg)
	if err != nil {
		return err
	}
	if text := c.String("again-since"); text != "" {
		var ok bool
		dir.Again, ok = runs.ParseTime(text, time.Now())
		if !ok {
			return rtcli.Usage("--again-since %q: give a time such as 2026-03-01T12:30, or how long ago, such as 7d or 12h", text)
		}
	}
	to, client, putter, err := connect(cfg.Sentinel)
	if cfg.Drain.Live {
		dir.Live = &drain.Live{To: client, Interval: cfg.Drain.Interval.Duration}
	}
	if err == nil {
		err = runs.CheckExists(cfg.Spool.Dir)
	}
	if err != nil {
		return err
	}
	var warnings []string
	if !cfg.Sentinel.AllowHTTP {
		for _, what := range to.ClearText() {
			warnings = append(warnings, what+": use https, or set sentinel.allow_http where the network is safe")
		}
	}
	o := upload.DrainOptions{
		Concurrency: cfg.Drain.Concurrency, Deadline: cfg.Drain.Deadline.Duration,
		Jitter: cfg.Drain.Jitter.Duration, BatchRows: cfg.Drain.BatchRows, Live: c.Bool("live"),
		Scope: rt.Scope(cfg.Drain.Scope),
	}
	bar := progress.New(c.App.ErrWriter, c.Bool("json"))
	o.Begin, o.Done = bar.Begin, bar.Done
	done, err := dir.Drain(c.Context, client, putter, o)
	bar.Clear()
	done.Warnings = warnings
	done.NodeReport = reportNode(c.Context, cfg, &done, err, client)
	if c.Bool("json") {
		return errors.Join(err, rtcli.PrintJSON(c.App.Writer, &done))
	}
	printDrained(c, &done, cfg.Drain.Sacct != "auto")
	return err
}

// drainDirectory is the configured spool.
func drainDirectory(cfg config.Config) (*drain.Directory, error) {
	privacy, err := privacyOf(cfg)
	return &drain.Directory{
		Dir: cfg.Spool.Dir, StateDir: cfg.Tracker.StateDir,
		Retain: cfg.Spool.Retain.Duration, QuotaNode: cfg.Spool.QuotaNode.Bytes,
		Access: func() (spool.Access, error) {
			readers, err := cfg.Spool.Readers("/etc/group")
			return spool.Access(readers), err
		},
		Accounting: drain.Accounting{
			Sacct: sacctProgram(cfg.Drain), Deadline: cfg.Drain.SacctDeadline.Duration, Wait: cfg.Drain.SacctWait.Duration,
		},
		Privacy: privacy,
	}, err
}

// sacctProgram is the path of sacct; empty if it is not installed or switched off.
func sacctProgram(cfg config.Drain) string {
	switch cfg.Sacct {
	case "off":
		return ""
	case "auto":
		return accounting.FindSacct()
	}
	return cfg.Sacct
}

func overrideDrain(c *cli.Context, d *config.Drain) error {
	if c.NArg() > 0 {
		return rtcli.Usage("drain takes no arguments; it delivers all runs that have ended")
	}
	if c.IsSet("jitter") {
		d.Jitter.Duration = c.Duration("jitter")
	}
	if c.IsSet("deadline") {
		d.Deadline.Duration = c.Duration("deadline")
	}
	if c.IsSet("concurrency") {
		d.Concurrency = c.Int("concurrency")
	}
	isOutside := d.Concurrency < 1 || d.Concurrency > maxConcurrency
	if d.Jitter.Duration < 0 || d.Deadline.Duration < 0 || isOutside {
		return rtcli.Usage("--jitter and --deadline cannot be negative, --concurrency is from 1 to %d", maxConcurrency)
	}
	return nil
}

// printDrained prints problems. A cluster without accounting has none, unless the configuration names sacct.
func printDrained(c *cli.Context, d *drain.Drained, sacctNamed bool) {
	switch {
	case d.AnotherRuns:
		fmt.Fprintln(c.App.Writer, "another drain is at work on this spool; nothing was done")
		return
	case rtcli.IsTerminal(c.App.Writer):
		fmt.Fprintf(c.App.Writer, "%d runs delivered (%d rows, %d bytes), %d failed, %d waiting, %d still tracked, %d damaged\n",
			d.Delivered, d.Rows, d.Bytes, d.Failed, d.Waiting+d.AwaitSacct, d.Live, d.Damaged)
	}
	hasProblem := d.LiveReport != "" && d.LiveReport != drain.ReportSent
	if hasProblem {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %s", d.LiveReport)
	}
	for _, w := range d.Warnings {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %v", w)
	}
	hasNoAccounting := strings.Contains(d.SacctError, "accounting storage is disabled")
	wantsSacct := sacctNamed || !hasNoAccounting
	if d.SacctError != "" && wantsSacct {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %v", d.SacctError)
	}
	for _, p := range d.Problems {
		switch {
		case p.Run == "": // the drain's own is its error
		case strings.Contains(p.Error, p.Run):
			rtcli.Message(c.App.ErrWriter, "rt-spool", "%s", p.Error)
		default:
			rtcli.Message(c.App.ErrWriter, "rt-spool", "%s: %s", p.Run, p.Error)
		}
	}
	if d.ProblemsOmitted > 0 {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "and %d more problems", d.ProblemsOmitted)
	}
}

// planned is a file as ls lists it, with what a drain would do with it.
type planned struct {
	runs.Planned
	WouldSend *drain.Preview `json:"would_send,omitempty"`
}

// dryRun lists what a drain would do now, in its order, without delivered runs that stay.
// It takes no lock, changes nothing and sends no request.
func dryRun(c *cli.Context, cfg config.Config) error {
	dir, err := drainDirectory(cfg)
	if err == nil {
		err = runs.CheckExists(cfg.Spool.Dir)
	}
	if err != nil {
		return err
	}
	entries, err := spool.List(cfg.Spool.Dir)
	if err != nil {
		return err
	}
	if _, _, _, err := connect(cfg.Sentinel); err != nil {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %v", err)
	}
	list := make([]planned, 0, len(entries))
	for i := range entries {
		if entries[i].Err == nil {
			entries[i].Err = spool.CheckOwner(entries[i].Path) // a drain changes the file
		}
		action, record := dir.Plan(&entries[i], c.Bool("live"))
		p := planned{Planned: runs.Planned{Action: action, Record: record, Listed: runs.ListedAs(&entries[i])}}
		if isSent := c.Bool("json") && record != ""; isSent {
			p.WouldSend = dir.Preview(&entries[i], dialectOf(cfg.Sentinel))
		}
		if p.Action != "" {
			list = append(list, p)
		}
	}
	if c.Bool("json") {
		return rtcli.PrintJSON(c.App.Writer, list)
	}
	rows := make([]runs.Planned, len(list))
	for i := range list {
		rows[i] = list[i].Planned
	}
	err = runs.PrintPlan(c.App.Writer, rows)
	if dir.Privacy.Hides() {
		fmt.Fprintf(c.App.Writer, "names that leave: %s; --json shows the registrations\n", &dir.Privacy)
	}
	return err
}
