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
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cloud"
	"github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/delivery"
	"github.com/resource-tracker/rt/internal/hostfacts"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

// farewell is how long the end of a run may wait for the network. What is not
// delivered by then stays in the spool. It is less than the 10 s after which
// containers are killed.
const farewell = 8 * time.Second

// hurry is what remains of farewell after another signal. It is not nothing:
// who ends a job signals all of its processes, us a moment after our command.
const hurry = 2 * time.Second

// takeLeave returns the context of the end.
func takeLeave() (context.Context, context.CancelFunc) {
	// Until we are gone: a signal in our last moments does not change our status.
	told, _ := signal.NotifyContext(context.Background(), heard(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)...)
	end, cancel := context.WithTimeoutCause(context.Background(), farewell, fmt.Errorf("the receiver did not take it all within %s", farewell))
	context.AfterFunc(told, func() { time.AfterFunc(hurry, cancel) })
	return end, cancel
}

// streaming is what the environment says of it.
type streaming struct {
	to    delivery.Receiver
	every time.Duration
}

// newStreaming returns nil where there is no token: nothing is sent then (section 9).
func newStreaming(getenv func(string) string) (*streaming, error) {
	token := strings.TrimSpace(getenv(delivery.EnvToken))
	if token == "" {
		return nil, nil
	}
	s := &streaming{every: time.Minute, to: delivery.Receiver{
		Endpoint: getenv(delivery.EnvEndpoint), Token: token, S3Endpoint: delivery.S3Endpoint(),
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

// streamer sends a run from its spool while the run is recorded. It never delays
// the recording, and the end by farewell at most.
type streamer struct {
	path    string // of the run's spool file
	private bool   // the spool is ours alone: it is removed once the run is delivered
	every   time.Duration
	client  upload.Client
	stream  *upload.Stream
	facts   <-chan rt.Host
	warn    func(error)

	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is sent in the background any more

	mu     sync.Mutex
	unlock func() error // ends our lock on the spool; nil where we have none
}

// openStream gives the run a spool, where it has none, and begins to send it.
func (t *tracking) openStream(s settings, warn func(error)) (err error) {
	client, putter, err := s.streaming.to.Connect()
	if err != nil {
		return err
	}
	stream, err := upload.NewStream(client, putter, delivery.Format, upload.Options{Tries: 3, Scope: s.scope})
	if err != nil {
		return err
	}
	for _, what := range s.streaming.to.ClearText() {
		warn(fmt.Errorf("%s: use https where others may listen", what))
	}
	local := readHost(s)
	private := t.writer == nil
	if private {
		dir, err := os.MkdirTemp("", privatePrefix)
		if err != nil {
			return fmt.Errorf("make a directory for what waits to be sent (TMPDIR names another place): %w", err)
		}
		if err := t.openSpool(s, dir, local, warn); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	prober := cloud.Prober{Endpoints: cloud.DefaultEndpoints()}
	ctx, cancel := context.WithCancel(context.Background())
	t.stream = &streamer{
		path: t.writer.Path(), private: private, every: s.streaming.every,
		client: client, stream: stream, warn: warn, cancel: cancel, done: make(chan struct{}),
		facts: hostfacts.Start(ctx, local, os.LookupEnv, func(ctx context.Context) rt.Host {
			return prober.Probe(ctx, cloud.Suspects(s.sysfs))
		}),
	}
	go t.stream.run(ctx)
	return nil
}

// run sends what is committed until ctx is done.
func (s *streamer) run(ctx context.Context) {
	defer close(s.done)
	defer recovery.Handle(func(err error) { s.warn(fmt.Errorf("nothing is sent until the end of the run: %w", err)) })
	r, err := spool.Open(s.path)
	if err != nil {
		s.warn(fmt.Errorf("nothing is sent until the end of the run: %w", err))
		return
	}
	defer r.Close() // what was written through it is durable
	s.tellOfOthers()
	var facts rt.Host
	select {
	case facts = <-s.facts:
	case <-ctx.Done():
		return
	}
	hostfacts.AddGPUs(&facts, firstGPUs(ctx, r))
	facts = hostfacts.Drop(facts, hostfacts.Suppressed(os.LookupEnv))
	if err := r.UpdateHost(facts); err != nil {
		s.warn(err)
	}
	s.stream.Run(ctx, r, s.every, s.warn)
}

// firstGPUs are the GPUs of the first reading, which is about to come.
func firstGPUs(ctx context.Context, r *spool.Reader) []rt.GPUReading {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		for s, err := range r.Snapshots(ctx, 1, 1) {
			if err != nil {
				return nil
			}
			return s.GPUs
		}
		if !pause(ctx, 20*time.Millisecond) {
			return nil
		}
	}
}

// leave ends the sending in the background. The spool is locked, where it is free,
// before the run ends: no drain takes the run from under our hands.
func (s *streamer) leave() {
	s.cancel()
	_ = s.lock(context.Background()) // deliver tries again
}

// lock takes the spool for ourselves, until we end.
func (s *streamer) lock(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlock != nil {
		return nil
	}
	var err error
	s.unlock, err = spool.LockDir(ctx, filepath.Dir(s.path))
	return err
}

// finish delivers what is left of the ended run, or says how it can be sent later.
func (s *streamer) finish(ctx context.Context) {
	result := make(chan error, 1)
	go func() {
		defer recovery.Handle(func(err error) { result <- err })
		result <- s.deliver(ctx)
	}()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		select {
		case err = <-result:
		case <-time.After(time.Second): // a disk that hangs, or an answer that is still awaited
			err = context.Cause(ctx)
		}
	}
	switch {
	case err != nil:
		s.isKept(err)
	case s.private:
		if err := os.RemoveAll(filepath.Dir(s.path)); err != nil {
			s.warn(fmt.Errorf("the run is delivered, its spool stays: %w", err))
		}
	}
}

// isKept says why the run is not delivered, and how it can be.
func (s *streamer) isKept(why error) {
	s.warn(fmt.Errorf("the run is not delivered: %w; it is kept, and this sends it later: %s", why, s.command(filepath.Dir(s.path))))
}

// errOpenRecord: the end of the run is not in its spool.
var errOpenRecord = errors.New("its record is not closed")

func (s *streamer) deliver(ctx context.Context) error {
	select {
	case <-s.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		err := s.lock(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, spool.ErrLocked) || !pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
	r, err := spool.Open(s.path)
	if err != nil {
		return err
	}
	switch r.Run().State {
	case rt.StateDelivered: // by a drain that was faster
	case rt.StateRunning:
		err = errOpenRecord
	default:
		err = s.stream.Finish(ctx, r)
	}
	return errors.Join(err, r.Close())
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// command is what a person types to send what is in dir, with the token in the
// environment as it was for us.
func (s *streamer) command(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return delivery.EnvEndpoint + "=" + quote(s.client.Endpoint()) + " rt-spool --spool " + quote(dir) + " drain"
}

// quote makes one word of a shell's command line.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
