package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/collect/cloud"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/upload/drain"
	"github.com/resource-tracker/rt/upload/streaming"
)

// streamCommand is for resource-tracker alone: its help does not list it.
func streamCommand() *cli.Command {
	return &cli.Command{
		Name:   streaming.Verb,
		Hidden: true,
		Usage:  "send a run while resource-tracker records it; resource-tracker starts this",
		Action: runStream,
	}
}

// runStream ignores the signals that resource-tracker handles: they may reach all processes of a job. It ends
// when resource-tracker commands it or has died.
func runStream(c *cli.Context) error {
	if rtcli.IsTerminal(os.Stdin) { // Ctrl-C would have no effect
		return rtcli.Usage("resource-tracker starts %s, it is no verb for users: with SENTINEL_API_TOKEN set, resource-tracker sends its run", streaming.Verb)
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGPIPE)
	debug.SetGCPercent(drainGCPercent)
	parent := streaming.NewTracker(os.Stdin, c.App.Writer)
	order, err := parent.Order()
	if err != nil {
		return rtcli.Usage("%w; resource-tracker starts %s, it is no verb for users", err, streaming.Verb)
	}
	to := drain.Receiver{
		Endpoint: os.Getenv(streaming.EnvEndpoint), Token: strings.TrimSpace(os.Getenv(streaming.EnvToken)),
		Dialect: order.Dialect, S3Endpoint: drain.S3Endpoint(os.Getenv),
	}
	stream, err := to.NewStream(drain.StreamOptions{
		Order: order, Temp: os.TempDir(), Warn: parent.Warn,
		Host: func(ctx context.Context, known rt.Host, firstGPUs func() []rt.GPUReading) (rt.Host, bool) {
			prober := cloud.Prober{Endpoints: cloud.DefaultEndpoints()}
			facts := host.Start(ctx, known, os.LookupEnv, func(ctx context.Context) rt.Host {
				return prober.Probe(ctx, cloud.Suspects(order.Sysfs))
			})
			select {
			case h := <-facts:
				host.AddGPUs(&h, firstGPUs())
				return host.Drop(h, host.Suppressed(os.LookupEnv)), true
			case <-ctx.Done():
				return rt.Host{}, false
			}
		},
	})
	if err != nil {
		parent.Warn(fmt.Errorf("nothing is sent: %w", err))
		parent.Serve(refusal(order))
		return nil
	}
	for _, what := range to.ClearText() {
		parent.Warn(fmt.Errorf("%s: use https where others may listen", what))
	}
	stream.Start()
	time.AfterFunc(startTime, releaseStart)
	parent.Serve(stream)
	return nil
}

// startTime is when a run is registered, in most cases.
const startTime = 10 * time.Second

// releaseStart releases the memory that only the start needed, as trackers do: it is the job's.
func releaseStart() {
	defer recovery.Handle(func(error) {}) // only the saving is lost
	debug.FreeOSMemory()
}

// refusal is a run that is not sent, because the receiver is not configured as it must be. Only a spool that is
// the user's own keeps it.
type refusal streaming.Order

// Leave implements streaming.Sender.
func (refusal) Leave() {}

// Finish implements streaming.Sender.
func (r refusal) Finish(context.Context) error {
	if !r.Private {
		return nil
	}
	return os.RemoveAll(filepath.Dir(r.Path))
}
