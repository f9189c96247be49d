package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/delivery"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
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
		},
		OnUsageError: onUsageError,
		Action:       runDrain,
	}
}

// drained is the JSON document of a drain.
type drained struct {
	upload.Summary
	Lost    int `json:"runs_closed_as_lost"` // their trackers had died
	Removed int `json:"runs_removed"`        // delivered longer ago than spool.retain
	// AnotherRuns says that nothing was done because another drain is at work.
	AnotherRuns bool `json:"another_drain_runs"`
}

func runDrain(c *cli.Context) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	if err := overrideDrain(c, &cfg.Drain); err != nil {
		return err
	}
	to, err := destination(cfg.Sentinel)
	if err != nil {
		return err
	}
	client, putter, err := to.Connect()
	if err != nil {
		return misconfigured(err)
	}
	var out drained
	err = out.drain(c, cfg, client, putter)
	if c.Bool("json") {
		err = errors.Join(err, printJSON(c.App.Writer, &out))
	} else {
		out.print(c)
	}
	return err
}

func overrideDrain(c *cli.Context, d *config.Drain) error {
	if c.NArg() > 0 {
		return usage("drain takes no arguments; it delivers all runs that have ended")
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
	if d.Jitter.Duration < 0 || d.Deadline.Duration < 0 || d.Concurrency < 1 {
		return usage("--jitter and --deadline cannot be negative, --concurrency is at least 1")
	}
	return nil
}

// destination says where to send, or what is not configured. A receiver that the
// environment names stands for the configured one as a whole: the configured token
// is not for it.
func destination(cfg config.Sentinel) (delivery.Receiver, error) {
	if url := os.Getenv(delivery.EnvEndpoint); url != "" {
		token := os.Getenv(delivery.EnvToken)
		if token == "" {
			return delivery.Receiver{}, misconfigured(fmt.Errorf("nothing is sent because %s is set without a token: set %s too", delivery.EnvEndpoint, delivery.EnvToken))
		}
		return delivery.Receiver{Endpoint: url, Token: token, S3Endpoint: delivery.S3Endpoint()}, nil
	}
	if cfg.Endpoint == "" {
		return delivery.Receiver{}, misconfigured(fmt.Errorf("nothing is sent because no receiver is configured: set endpoint in [sentinel] of rt.toml, or %s", delivery.EnvEndpoint))
	}
	token, err := readToken(cfg.TokenFile)
	if err != nil {
		return delivery.Receiver{}, misconfigured(err)
	}
	store := cfg.S3Endpoint
	if store == "" {
		store = delivery.S3Endpoint()
	}
	return delivery.Receiver{
		Endpoint: cfg.Endpoint, Token: token, Dialect: cfg.Dialect,
		S3Endpoint: store, S3Region: cfg.S3Region, CAFile: cfg.CAFile,
	}, nil
}

// readToken returns the first line of the file, or else SENTINEL_API_TOKEN.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if token := strings.TrimSpace(os.Getenv(delivery.EnvToken)); token != "" {
			return token, nil
		}
		return "", fmt.Errorf("nothing is sent because there is no token: put it into %s (sentinel.token_file of rt.toml), or set SENTINEL_API_TOKEN", file)
	}
	if err != nil {
		return "", fmt.Errorf("sentinel.token_file: %w", err)
	}
	token, _, _ := strings.Cut(string(text), "\n")
	if token = strings.TrimSpace(token); token == "" {
		return "", fmt.Errorf("sentinel.token_file: the first line of %s is empty; the token belongs there", file)
	}
	return token, nil
}

// drain does all of it under the directory's lock.
func (d *drained) drain(c *cli.Context, cfg config.Config, client upload.Client, putter upload.Putter) error {
	unlock, err := spool.LockDir(c.Context, cfg.Spool.Dir)
	if errors.Is(err, spool.ErrLocked) {
		d.AnotherRuns = true
		return nil
	}
	if err != nil {
		return err
	}
	dir := &directory{cfg: cfg}
	var bar *bar
	o := upload.Options{
		Concurrency: cfg.Drain.Concurrency, Deadline: cfg.Drain.Deadline.Duration,
		Jitter: cfg.Drain.Jitter.Duration, BatchRows: cfg.Drain.BatchRows,
	}
	if isTerminal(c.App.ErrWriter) && !c.Bool("json") {
		bar = newBar(c.App.ErrWriter)
		o.Progress = bar
	}
	d.Summary, err = upload.Drain(c.Context, dir, client, putter, delivery.Format(rt.Scope(cfg.Drain.Scope)), o)
	bar.finish()
	d.Lost = dir.lost
	removed, rerr := dir.removeOld(context.WithoutCancel(c.Context), time.Now())
	d.Removed = removed
	return errors.Join(err, rerr, unlock())
}

// print says what a person or a log wants to know: nothing where all went well
// and nobody looks.
func (d *drained) print(c *cli.Context) {
	switch {
	case d.AnotherRuns:
		fmt.Fprintln(c.App.Writer, "another drain is at work on this spool; nothing was done")
		return
	case isTerminal(c.App.Writer):
		fmt.Fprintf(c.App.Writer, "%d runs delivered (%d rows, %d bytes), %d failed, %d waiting, %d still tracked, %d damaged\n",
			d.Delivered, d.Rows, d.Bytes, d.Failed, d.Waiting, d.Live, d.Damaged)
	}
	for _, p := range d.Problems {
		if p.Run != "" { // the drain's own is its error
			fmt.Fprintf(c.App.ErrWriter, "rt-spool: %s: %s\n", p.Run, p.Error)
		}
	}
	if d.ProblemsOmitted > 0 {
		fmt.Fprintf(c.App.ErrWriter, "rt-spool: and %d more problems\n", d.ProblemsOmitted)
	}
}
