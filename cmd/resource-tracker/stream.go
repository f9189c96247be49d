package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/upload/streaming"
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

// errOpenRecord: the end of the run cannot be written.
var errOpenRecord = errors.New("its record is not closed")

// uploads are what the environment says of the receiver.
type uploads struct {
	endpoint string // the value of SENTINEL_API_URL
	dialect  string // of the API; if it is empty, the API determines it
	every    time.Duration
}

// newUploads returns nil if there is no token: then nothing is sent (section 9).
func newUploads(getenv func(string) string, dialect string) (*uploads, error) {
	if strings.TrimSpace(getenv(streaming.EnvToken)) == "" {
		return nil, nil
	}
	u := &uploads{endpoint: getenv(streaming.EnvEndpoint), dialect: dialect, every: time.Minute}
	if text := getenv("TRACKER_UPLOAD_INTERVAL"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 64)
		if err != nil || seconds < 1 || seconds > maxInterval {
			return nil, cli.Usage("TRACKER_UPLOAD_INTERVAL %q: give a whole number of seconds from 1 to %d", text, maxInterval)
		}
		u.every = time.Duration(seconds) * time.Second
	}
	return u, nil
}

// openStream creates a spool for a run that has none, and starts rt-spool, which sends it.
func (t *tracking) openStream(s settings, warn func(error)) error {
	private := t.writer == nil
	if private {
		dir, err := os.MkdirTemp("", streaming.PrivatePrefix)
		if err != nil {
			return fmt.Errorf("make a directory for what waits to be sent (TMPDIR names another place): %w", err)
		}
		local := host.Local(host.NewRoots(s.procfs, s.sysfs), os.LookupEnv)
		if err := t.openSpool(s, dir, local, warn); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	lock, err := t.writer.LockFile()
	if err != nil {
		later := streaming.DrainCommand(s.uploads.endpoint, filepath.Dir(t.writer.Path()))
		return fmt.Errorf("%w; the run is kept, and this sends it later: %s", err, later)
	}
	t.stream = streaming.Start(streaming.Order{
		Path: t.writer.Path(), Private: private, Every: s.uploads.every, Scope: s.scope, Dialect: s.uploads.dialect, Sysfs: s.sysfs,
	}, s.uploads.endpoint, lock, s.orphans.start, warn)
	return nil
}
