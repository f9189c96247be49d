package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/format/powerapi"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/internal/telemetry"
)

func powerapiCommand() *cli.Command {
	return &cli.Command{
		Name:  "powerapi",
		Usage: "send the reports of running jobs to a PowerAPI formula, until it is told to stop",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Usage: "the formula listens on `HOST:PORT` (default: the configuration's powerapi.socket)"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "append the reports to `FILE` instead"},
			&cli.StringFlag{Name: "listen", Usage: "keep what other sensors send to `HOST:PORT` in the file of --output, for import"},
			&cli.DurationFlag{Name: "interval", Usage: "look for new readings every `TIME` (default: the configuration's spool.commit_interval)"},
		},
		OnUsageError: onUsageError,
		Action:       runPowerAPI,
	}
}

func runPowerAPI(c *cli.Context) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	if c.NArg() > 0 {
		return rtcli.Usage("powerapi takes no arguments")
	}
	if c.IsSet("socket") {
		cfg.PowerAPI.Socket = c.String("socket")
		if err := telemetry.CheckHostPort(cfg.PowerAPI.Socket, "127.0.0.1:9080"); err != nil {
			return rtcli.Usage("--socket %w", err)
		}
	}
	every := cfg.Spool.CommitInterval.Duration
	if c.IsSet("interval") {
		if every = c.Duration("interval"); every < 100*time.Millisecond {
			return rtcli.Usage("--interval %s: at least 100ms", every)
		}
	}
	f := &reportFollower{dir: cfg.Spool.Dir, idleWatts: cfg.Energy.IdleWatts}
	for kind := range strings.SplitSeq(cfg.PowerAPI.Reports, ",") {
		f.kinds = append(f.kinds, strings.TrimSpace(kind))
	}
	say := log.New(c.App.ErrWriter, "rt-spool: ", log.LstdFlags)
	switch {
	case c.IsSet("listen") && (c.String("output") == "" || c.IsSet("socket") || c.IsSet("interval")):
		return rtcli.Usage("--listen goes with --output alone")
	case c.IsSet("listen"):
		return receiveToFile(c, c.String("listen"), c.String("output"), say)
	case c.String("output") != "":
		return followToFile(c.Context, f, c.String("output"), every, say)
	case cfg.PowerAPI.Socket == "":
		return misconfigured(errors.New("nobody is to get the reports: set powerapi.socket, or give --socket or --output"))
	}
	return followToSocket(c.Context, f, cfg.PowerAPI, every, say)
}

// receiveToFile keeps the reports of other sensors.
func receiveToFile(c *cli.Context, address, name string, say *log.Logger) error {
	if err := telemetry.CheckHostPort(address, "127.0.0.1:9080"); err != nil {
		return rtcli.Usage("--listen %w", err)
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("keep reports: %w", err)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", address, telemetry.ListenError(err)), out.Close())
	}
	fmt.Fprintf(c.App.Writer, "listening on %s\n", ln.Addr())
	if !loopback(ln.Addr()) {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: warning: whoever can connect can add reports")
	}
	r := newReportReceiver(out, say)
	err = r.serve(c.Context, ln)
	say.Printf("%d reports were kept", r.kept)
	return errors.Join(err, out.Sync(), out.Close())
}

// followToFile appends reports as PowerAPI's file input reads them.
func followToFile(ctx context.Context, f *reportFollower, name string, every time.Duration, say *log.Logger) error {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	f.put = func(r powerapi.Report) error {
		line, err := r.AppendJSON(nil, powerapi.ISO)
		if err == nil {
			_, err = out.Write(line)
		}
		return err
	}
	follow(ctx, f, every, say)
	return errors.Join(out.Sync(), out.Close())
}

// followToSocket sends reports as PowerAPI's socket input reads them.
func followToSocket(ctx context.Context, f *reportFollower, cfg config.PowerAPI, every time.Duration, say *log.Logger) error {
	s := &reportSender{queue: newReportQueue(cfg.Queue), address: cfg.Socket, log: say, dial: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
	f.put = func(r powerapi.Report) error {
		line, err := r.AppendJSON(nil, powerapi.Millis)
		if err == nil {
			s.queue.put(line)
		}
		return err
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		defer recovery.Handle(func(err error) { say.Print(err) })
		s.run(ctx)
	})
	follow(ctx, f, every, say)
	beside.Wait()
	waiting, dropped := s.queue.counts()
	say.Printf("%d reports were sent, %d were dropped, %d waited at the end", s.sent, dropped, waiting)
	return nil
}

// follow polls until ctx is done. What cannot be read is told once.
func follow(ctx context.Context, f *reportFollower, every time.Duration, say *log.Logger) {
	told := ""
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f.poll(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			say.Print(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
