package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/telemetry"
)

func liveCommand() *cli.Command {
	return &cli.Command{
		Name:      "live",
		Usage:     "broadcast what a job's tasks on this node do, as GemPBA's telemetry",
		ArgsUsage: "JOB",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "serve clients at `ADDRESS`: HOST:PORT or unix:PATH (default: print the lines)"},
			&cli.BoolFlag{Name: "job", Usage: "all nodes of the job: reach the others by srun or ssh"},
			&cli.StringFlag{Name: "nodes", Usage: "the job's nodes are `LIST`, as squeue shows it (default: as recorded by its tracker, or SLURM_JOB_NODELIST)"},
			&cli.StringFlag{Name: "via", Value: "srun", Usage: "reach the other nodes by `PROGRAM`: srun (a step that overlaps), or ssh"},
			&cli.StringFlag{Name: "node", Usage: "this node's `NAME` in Slurm, if the host has several"},
			&cli.BoolFlag{Name: "peers", Usage: "include the tasks' connections to other nodes, as --job needs"},
		},
		OnUsageError: onUsageError,
		Action:       runLive,
	}
}

func runLive(c *cli.Context) error {
	if c.NArg() != 1 {
		return rtcli.Usage("live takes one JOB that runs on this node; rt-spool ls shows what there is")
	}
	var address telemetry.Address
	if text := c.String("listen"); text != "" {
		var err error
		address, err = telemetry.ParseAddress(text)
		if err != nil {
			return rtcli.Usage("--listen %w", err)
		}
	}
	run, err := liveRun(c)
	if err != nil {
		return err
	}
	job, err := telemetry.OpenJob(run)
	if err != nil {
		return err
	}
	defer job.Close()
	if uid := os.Geteuid(); uid != 0 && uid != job.Owner() {
		return fmt.Errorf("job %s is of user %d: only the job's owner and root may watch it", run.Label(), job.Owner())
	}
	var others *telemetry.Remote
	if c.Bool("job") {
		others, err = liveRemote(c, run)
		if err != nil {
			return err
		}
	}
	ctx, cancel := job.UntilEnded(c.Context)
	defer cancel()
	warn := func(err error) { fmt.Fprintf(c.App.ErrWriter, "rt-spool: warning: %v\n", err) }
	return job.Watch(ctx, others, c.Bool("peers"), warn, func(source telemetry.Source) error {
		if !c.IsSet("listen") {
			return telemetry.Print(ctx, source, c.App.Writer)
		}
		return serveLive(ctx, c, source, address, job.Owner(), warn)
	})
}

// serveLive broadcasts until ctx is done.
func serveLive(ctx context.Context, c *cli.Context, source telemetry.Source, a telemetry.Address, owner int, warn func(error)) error {
	listener, err := telemetry.Listen(ctx, a, owner)
	if err != nil {
		return err
	}
	if listener.Public() {
		warn(fmt.Errorf("every user that reaches this machine can watch the job at %s; --listen 127.0.0.1:PORT is for this machine only", listener.Addr()))
	}
	if _, err := fmt.Fprintf(c.App.Writer, "listening on %s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	telemetry.NewServer(source, warn).Serve(ctx, listener)
	return nil
}
