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
	"github.com/resource-tracker/rt/collect/cloud"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/host"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/hostfacts"
)

func hostCommand() *cli.Command {
	return &cli.Command{
		Name:  "host",
		Usage: "find out the facts of this host and its cloud, and record them for the trackers",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
			&cli.BoolFlag{Name: "no-cloud", Usage: "use no metadata service of a cloud"},
		},
		Action: runHost,
	}
}

func runHost(c *cli.Context) error {
	if c.NArg() > 0 {
		return rtcli.Usage("host takes no arguments")
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	m := machine{
		roots: host.NewRoots("/proc", "/sys"),
		env:   os.LookupEnv,
		gpus:  func(ctx context.Context) []rt.GPUReading { return gpu.ReadOnce(ctx, gpu.New("/dev", "/sys")) },
		cloud: func(context.Context) rt.Host { return rt.Host{} },
	}
	if !c.Bool("no-cloud") {
		prober := cloud.Prober{Endpoints: cloud.DefaultEndpoints()}
		m.cloud = func(ctx context.Context) rt.Host { return prober.Probe(ctx, cloud.Suspects("/sys")) }
	}
	facts, err := m.facts(c.Context, time.Now().UTC())
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, facts.Host)
	} else {
		w := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
		for _, f := range hostfacts.Facts(facts.Host) {
			fmt.Fprintf(w, "%s\t%s\n", f.Name, f.Value)
		}
		err = w.Flush()
	}
	if cfg.Tracker.HostCache != "" {
		err = errors.Join(err, hostfacts.Save(cfg.Tracker.HostCache, facts))
	}
	return err
}

// machine has the sources of a host's facts.
type machine struct {
	roots host.Roots
	env   hostfacts.Lookup
	gpus  func(context.Context) []rt.GPUReading
	cloud func(context.Context) rt.Host
}

// facts reads all sources. An interrupted read is an error: it must not replace better facts.
func (m *machine) facts(ctx context.Context, now time.Time) (hostfacts.Cache, error) {
	boot, err := host.BootID(m.roots.Proc)
	if err != nil {
		return hostfacts.Cache{}, err
	}
	known := hostfacts.Start(ctx, host.Read(m.roots), m.env, m.cloud)
	gpus := m.gpus(ctx) // while the cloud's service answers
	h := <-known
	if ctx.Err() != nil {
		return hostfacts.Cache{}, fmt.Errorf("find out the facts of this host: %w", ctx.Err())
	}
	hostfacts.AddGPUs(&h, gpus)
	drop := hostfacts.Suppressed(m.env)
	return hostfacts.Cache{BootID: boot, CollectedAt: now, Suppressed: drop, Host: hostfacts.Drop(h, drop)}, nil
}
