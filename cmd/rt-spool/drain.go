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
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/delivery"
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
			&cli.BoolFlag{Name: "live", Usage: "upload what there is of runs that are still tracked, too"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and do nothing"},
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
	accounting
	Warnings []string `json:"warnings,omitempty"`
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
	if c.Bool("dry-run") {
		return dryRun(c, cfg)
	}
	to, client, putter, err := connect(cfg.Sentinel)
	if err == nil {
		err = spoolThere(cfg.Spool.Dir)
	}
	if err != nil {
		return err
	}
	var out drained
	if !cfg.Sentinel.AllowHTTP {
		for _, what := range to.ClearText() {
			out.Warnings = append(out.Warnings, what+": use https, or set sentinel.allow_http where the network is safe")
		}
	}
	err = out.drain(c, cfg, client, putter)
	if c.Bool("json") {
		err = errors.Join(err, rtcli.PrintJSON(c.App.Writer, &out))
	} else {
		out.print(c)
	}
	return err
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
	if d.Jitter.Duration < 0 || d.Deadline.Duration < 0 || d.Concurrency < 1 {
		return rtcli.Usage("--jitter and --deadline cannot be negative, --concurrency is at least 1")
	}
	return nil
}

// connect makes the clients of the receiver that is configured.
func connect(cfg config.Sentinel) (to delivery.Receiver, client upload.Client, putter upload.Putter, err error) {
	if to, err = destination(cfg); err != nil {
		return to, nil, nil, err
	}
	if client, putter, err = to.Connect(); err != nil {
		err = misconfigured(err)
	}
	return to, client, putter, err
}

// destination says where to send, or what is not configured. A receiver that the
// environment names stands for the configured one as a whole: the configured token
// is not for it.
func destination(cfg config.Sentinel) (delivery.Receiver, error) {
	if endpoint := os.Getenv(delivery.EnvEndpoint); endpoint != "" {
		token := os.Getenv(delivery.EnvToken)
		if token == "" {
			return delivery.Receiver{}, misconfigured(fmt.Errorf("nothing is sent because %s is set without a token: set %s too", delivery.EnvEndpoint, delivery.EnvToken))
		}
		return delivery.Receiver{Endpoint: endpoint, Token: token, S3Endpoint: delivery.S3Endpoint(os.Getenv)}, nil
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
		store = delivery.S3Endpoint(os.Getenv)
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
	dir := &directory{cfg: cfg, sacct: newAccounting(cfg.Drain)}
	var bar *bar
	o := upload.Options{
		Concurrency: cfg.Drain.Concurrency, Deadline: cfg.Drain.Deadline.Duration,
		Jitter: cfg.Drain.Jitter.Duration, BatchRows: cfg.Drain.BatchRows, Live: c.Bool("live"),
		Scope: rt.Scope(cfg.Drain.Scope),
	}
	if rtcli.IsTerminal(c.App.ErrWriter) && !c.Bool("json") {
		bar = newBar(c.App.ErrWriter)
		o.Progress = bar
	}
	var err error
	d.Summary, err = upload.Drain(c.Context, dir, client, putter, delivery.Format, o)
	bar.finish()
	d.Lost, d.accounting = dir.lost, dir.sacct
	if errors.Is(err, spool.ErrLocked) {
		d.AnotherRuns = true
		return nil
	}
	var rerr error
	if dir.unlock != nil {
		d.Removed, rerr = dir.removeOld(context.WithoutCancel(c.Context), time.Now())
	}
	return errors.Join(err, rerr, dir.close())
}

// print says what a person or a log wants to know: nothing where all went well
// and nobody looks.
func (d *drained) print(c *cli.Context) {
	switch {
	case d.AnotherRuns:
		fmt.Fprintln(c.App.Writer, "another drain is at work on this spool; nothing was done")
		return
	case rtcli.IsTerminal(c.App.Writer):
		fmt.Fprintf(c.App.Writer, "%d runs delivered (%d rows, %d bytes), %d failed, %d waiting, %d still tracked, %d damaged\n",
			d.Delivered, d.Rows, d.Bytes, d.Failed, d.Waiting+d.AwaitSacct, d.Live, d.Damaged)
	}
	for _, w := range d.Warnings {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: warning:", w)
	}
	if d.SacctError != "" && (d.named || rtcli.IsTerminal(c.App.ErrWriter)) {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool:", d.SacctError)
	}
	for _, p := range d.Problems {
		switch {
		case p.Run == "": // the drain's own is its error
		case strings.Contains(p.Error, p.Run):
			fmt.Fprintf(c.App.ErrWriter, "rt-spool: %s\n", p.Error)
		default:
			fmt.Fprintf(c.App.ErrWriter, "rt-spool: %s: %s\n", p.Run, p.Error)
		}
	}
	if d.ProblemsOmitted > 0 {
		fmt.Fprintf(c.App.ErrWriter, "rt-spool: and %d more problems\n", d.ProblemsOmitted)
	}
}
