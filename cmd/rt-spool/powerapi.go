package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/internal/hostport"
)

func powerapiCommand() *cli.Command {
	return &cli.Command{
		Name:  "powerapi",
		Usage: "send the reports of running jobs to a PowerAPI formula, until SIGTERM",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Usage: "the formula listens on `HOST:PORT` (default: the configuration's powerapi.socket)"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "append the reports to `FILE` instead"},
			&cli.StringFlag{Name: "listen", Usage: "write reports that other sensors send to `HOST:PORT` to the file of --output, for import"},
			&cli.DurationFlag{Name: "interval", Usage: "look for new readings every `TIME` (default: the configuration's spool.commit_interval)"},
		},
		Action: withConfig(runPowerAPI),
	}
}

func runPowerAPI(c *cli.Context, cfg config.Config) error {
	if c.NArg() > 0 {
		return rtcli.Usage("powerapi takes no arguments")
	}
	if c.IsSet("socket") {
		cfg.PowerAPI.Socket = c.String("socket")
		if err := hostport.Check(cfg.PowerAPI.Socket, "127.0.0.1:9080"); err != nil {
			return rtcli.Usage("--socket %w", err)
		}
	}
	every := cfg.Spool.CommitInterval.Duration
	if c.IsSet("interval") {
		every = c.Duration("interval")
		if every < 100*time.Millisecond {
			return rtcli.Usage("--interval %s: at least 100ms", every)
		}
	}
	o := powerapi.FollowOptions{
		Dir: cfg.Spool.Dir, IdleWatts: cfg.Energy.IdleWatts, Every: every, Log: log.New(c.App.ErrWriter, "rt-spool: ", log.LstdFlags),
	}
	for kind := range strings.SplitSeq(cfg.PowerAPI.Reports, ",") {
		o.Kinds = append(o.Kinds, strings.TrimSpace(kind))
	}
	switch {
	case c.IsSet("listen") && c.String("output") == "", c.IsSet("listen") && c.IsSet("socket"), c.IsSet("listen") && c.IsSet("interval"):
		return rtcli.Usage("--listen needs --output and no other flag")
	case c.IsSet("listen"):
		return receiveToFile(c, c.String("listen"), c.String("output"), o.Log)
	case c.String("output") != "":
		return powerapi.FollowToFile(c.Context, o, c.String("output"))
	case cfg.PowerAPI.Socket == "":
		return misconfigured(errors.New("there is no receiver of the reports: set powerapi.socket, or give --socket or --output"))
	}
	return powerapi.FollowToSocket(c.Context, o, cfg.PowerAPI.Socket, cfg.PowerAPI.Queue)
}

// receiveToFile keeps the reports of other sensors.
func receiveToFile(c *cli.Context, address, name string, log *log.Logger) error {
	if err := hostport.Check(address, "127.0.0.1:9080"); err != nil {
		return rtcli.Usage("--listen %w", err)
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("keep reports: %w", err)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", address, hostport.ListenError(err)), out.Close())
	}
	fmt.Fprintf(c.App.Writer, "listening on %s\n", ln.Addr())
	if !hostport.IsLoopback(ln.Addr()) {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: warning: every host that can connect can add reports")
	}
	r := powerapi.NewReceiver(out, log)
	err = r.Serve(c.Context, ln)
	log.Printf("%d reports were kept", r.Kept())
	return errors.Join(err, out.Sync(), out.Close())
}
