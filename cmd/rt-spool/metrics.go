package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/upload/drain"
	"github.com/resource-tracker/rt/upload/sentinel"
)

func metricsCommand() *cli.Command {
	return &cli.Command{
		Name:   "metrics",
		Usage:  "write the state of this node as metrics, for node_exporter's textfile collector",
		Flags:  []cli.Flag{&cli.StringFlag{Name: "textfile", Usage: "write to `FILE`, which it replaces at once, instead of standard output"}},
		Action: withConfig(runMetrics),
	}
}

// runMetrics writes what is known also if something cannot be read.
func runMetrics(c *cli.Context, cfg config.Config) error {
	if c.NArg() > 0 {
		return rtcli.Usage("metrics takes no arguments")
	}
	state, err := nodeSource(cfg).Read(time.Now())
	metrics := drain.NodeMetrics(state)
	if file := c.String("textfile"); file != "" {
		return errors.Join(err, prometheus.WriteToTextfile(file, metrics))
	}
	return errors.Join(err, drain.PrintMetrics(c.App.Writer, metrics))
}

// reportNode records a drain, and reports the state of the node to a receiver that takes reports. A failure changes
// nothing about the drain.
func reportNode(ctx context.Context, cfg config.Config, d *drain.Drained, drainErr error, to *sentinel.Client) string {
	if d.AnotherRuns {
		return ""
	}
	isSent, err := nodeSource(cfg).AfterDrain(ctx, d, drainErr, to)
	switch {
	case err != nil:
		return err.Error()
	case isSent:
		return drain.ReportSent
	}
	return ""
}

// nodeSource is where the state of this node is.
func nodeSource(cfg config.Config) drain.Node {
	return drain.Node{
		Spool: cfg.Spool.Dir, Quota: cfg.Spool.QuotaNode.Bytes, StateDir: cfg.Tracker.StateDir, DisableFile: cfg.Hooks.DisableFile,
		BreakerFailures: cfg.Hooks.BreakerFailures, BreakerReset: cfg.Hooks.BreakerReset.Duration,
	}
}
