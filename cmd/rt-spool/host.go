package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/collect/cloud"
	"github.com/resource-tracker/rt/collect/host"
)

func hostCommand() *cli.Command {
	return &cli.Command{
		Name:  "host",
		Usage: "find out the facts of this host and its cloud, and record them for the trackers",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
			&cli.BoolFlag{Name: "no-cloud", Usage: "use no metadata service of a cloud"},
		},
		Action: withConfig(runHost),
	}
}

func runHost(c *cli.Context, cfg config.Config) error {
	if c.NArg() > 0 {
		return rtcli.Usage("host takes no arguments")
	}
	m := host.Machine{
		Roots: host.NewRoots("/proc", "/sys"),
		Env:   os.LookupEnv,
		GPUs: func(ctx context.Context) []rt.GPUReading {
			gpus, err := readGPUs(ctx)
			if err != nil {
				rtcli.Message(c.App.ErrWriter, "rt-spool", "not all GPUs are shown: %v", err)
			}
			return gpus
		},
		Cloud: func(context.Context) rt.Host { return rt.Host{} },
	}
	if !c.Bool("no-cloud") {
		prober := cloud.Prober{Endpoints: cloud.DefaultEndpoints()}
		m.Cloud = func(ctx context.Context) rt.Host { return prober.Probe(ctx, cloud.Suspects("/sys")) }
	}
	facts, err := m.Facts(c.Context, time.Now().UTC())
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, facts.Host)
	} else {
		w := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
		for _, f := range host.Facts(facts.Host) {
			fmt.Fprintf(w, "%s\t%s\n", f.Name, f.Value)
		}
		err = w.Flush()
	}
	if cfg.Tracker.HostCache != "" {
		err = errors.Join(err, host.Save(cfg.Tracker.HostCache, facts))
	}
	return err
}
