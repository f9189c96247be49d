package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cloud"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/delivery"
	"github.com/resource-tracker/rt/internal/hostfacts"
)

// shutdownTimeout is how long the end of a run may wait for the network; the rest stays in
// the spool. It is less than the 10 s after which containers are killed.
const shutdownTimeout = 8 * time.Second

// secondSignalTimeout is what remains after another signal. It is not 0: a signal that ends
// a job reaches us a moment after our command.
const secondSignalTimeout = 2 * time.Second

// shutdownContext returns the context of the end.
func shutdownContext() (context.Context, context.CancelFunc) {
	// It is never stopped: a signal at the very end must not change our status.
	again, _ := signal.NotifyContext(context.Background(), notIgnored(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)...)
	end, cancel := context.WithTimeoutCause(context.Background(), shutdownTimeout, fmt.Errorf("the receiver did not take it all within %s", shutdownTimeout))
	context.AfterFunc(again, func() { time.AfterFunc(secondSignalTimeout, cancel) })
	return end, cancel
}

// streaming is the receiver that the environment names.
type streaming struct {
	to    delivery.Receiver
	every time.Duration
}

// newStreaming returns nil if there is no token: then nothing is sent (section 9). dialect is the
// dialect of the API; if it is empty, the API determines it.
func newStreaming(getenv func(string) string, dialect string) (*streaming, error) {
	token := strings.TrimSpace(getenv(delivery.EnvToken))
	if token == "" {
		return nil, nil
	}
	s := &streaming{every: time.Minute, to: delivery.Receiver{
		Endpoint: getenv(delivery.EnvEndpoint), Token: token, Dialect: dialect, S3Endpoint: delivery.S3Endpoint(getenv),
	}}
	if text := getenv("TRACKER_UPLOAD_INTERVAL"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 64)
		if err != nil || seconds < 1 || seconds > maxInterval {
			return nil, cli.Usage("TRACKER_UPLOAD_INTERVAL %q: give a whole number of seconds from 1 to %d", text, maxInterval)
		}
		s.every = time.Duration(seconds) * time.Second
	}
	return s, nil
}

// openStream creates a spool for a run that has none, and begins to send it.
func (t *tracking) openStream(s settings, warn func(error)) (err error) {
	stream, err := s.streaming.to.NewStream(s.scope)
	if err != nil {
		return err
	}
	for _, what := range s.streaming.to.ClearText() {
		warn(fmt.Errorf("%s: use https where others may listen", what))
	}
	local := hostfacts.Local(host.NewRoots(s.procfs, s.sysfs), os.LookupEnv)
	private := t.writer == nil
	if private {
		dir, err := os.MkdirTemp("", delivery.PrivatePrefix)
		if err != nil {
			return fmt.Errorf("make a directory for what waits to be sent (TMPDIR names another place): %w", err)
		}
		if err := t.openSpool(s, dir, local, warn); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	stream.Start(delivery.StreamOptions{
		Path: t.writer.Path(), Private: private, Temp: os.TempDir(), Every: s.streaming.every, Warn: warn,
		Host: func(ctx context.Context, firstGPUs func() []rt.GPUReading) (rt.Host, bool) {
			prober := cloud.Prober{Endpoints: cloud.DefaultEndpoints()}
			facts := hostfacts.Start(ctx, local, os.LookupEnv, func(ctx context.Context) rt.Host {
				return prober.Probe(ctx, cloud.Suspects(s.sysfs))
			})
			select {
			case h := <-facts:
				hostfacts.AddGPUs(&h, firstGPUs())
				return hostfacts.Drop(h, hostfacts.Suppressed(os.LookupEnv)), true
			case <-ctx.Done():
				return rt.Host{}, false
			}
		},
	})
	t.stream = stream
	return nil
}
