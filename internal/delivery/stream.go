package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/internal/wait"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

// Stream sends a run from its spool file while the run is recorded, without any delay for that.
type Stream struct {
	StreamOptions
	client upload.Client
	stream *upload.Stream
	cancel context.CancelFunc
	done   chan struct{} // closed when the background sending has ended

	mu     sync.Mutex
	unlock func() error // of the spool; nil without the lock
}

// StreamOptions are the options of a Stream.
type StreamOptions struct {
	Path    string        // of the run's spool file
	Private bool          // remove the spool once the run is delivered
	Temp    string        // where private spools of earlier runs may be
	Every   time.Duration // between two uploads
	// Host completes the facts about the host before the registration; false if
	// ctx is done first. firstGPUs returns the GPUs of the first reading.
	Host func(ctx context.Context, firstGPUs func() []rt.GPUReading) (rt.Host, bool)
	Warn func(error)
}

// NewStream returns a Stream to a receiver. It does not connect.
func (r Receiver) NewStream(scope rt.Scope) (*Stream, error) {
	client, putter, err := r.Connect()
	if err != nil {
		return nil, err
	}
	stream, err := upload.NewStream(client, putter, Format, upload.Options{Tries: 3, Scope: scope})
	if err != nil {
		return nil, err
	}
	return &Stream{client: client, stream: stream, done: make(chan struct{})}, nil
}

// Start begins to send in the background. It must be called once.
func (s *Stream) Start(o StreamOptions) {
	s.StreamOptions = o
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
}

// run sends what is committed until ctx is done.
func (s *Stream) run(ctx context.Context) {
	defer close(s.done)
	defer recovery.Handle(func(err error) { s.Warn(fmt.Errorf("nothing is sent until the end of the run: %w", err)) })
	r, err := spool.Open(s.Path)
	if err != nil {
		s.Warn(fmt.Errorf("nothing is sent until the end of the run: %w", err))
		return
	}
	defer r.Close() // what was written through it is durable
	for _, dir := range undelivered(s.Temp, filepath.Dir(s.Path)) {
		s.Warn(fmt.Errorf("an earlier run was not delivered; this sends it: %s", s.command(dir)))
	}
	host, ok := s.Host(ctx, func() []rt.GPUReading { return firstGPUs(ctx, r) })
	if !ok {
		return
	}
	if err := r.UpdateHost(host); err != nil {
		s.Warn(err)
	}
	s.stream.Run(ctx, spooled{r, &Privacy{}}, s.Every, s.Warn)
}

// firstGPUs waits for the first reading, at most a second, and returns its GPUs.
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
		if !wait.For(ctx, 20*time.Millisecond) {
			return nil
		}
	}
}

// Cancel ends the background sending.
func (s *Stream) Cancel() { s.cancel() }

// Leave ends the background sending before the run ends. It locks the spool, where no
// other process has the lock, so that no drain takes the run before Finish.
func (s *Stream) Leave() {
	s.cancel()
	_ = s.lock(context.Background()) // deliver retries
}

// lock takes the lock of the spool for the life of this process.
func (s *Stream) lock(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlock != nil {
		return nil
	}
	var err error
	s.unlock, err = spool.LockDir(ctx, filepath.Dir(s.Path))
	return err
}

// Finish delivers the rest of the ended run until ctx is done, or warns how to send it later.
func (s *Stream) Finish(ctx context.Context) {
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
		case <-time.After(time.Second): // a disk that hangs, or a pending answer
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		s.warnKept(err)
		return
	}
	for _, p := range s.stream.Problems() {
		s.Warn(errors.New(p.Error))
	}
	if s.Private {
		if err := os.RemoveAll(filepath.Dir(s.Path)); err != nil {
			s.Warn(fmt.Errorf("the run is delivered, its spool stays: %w", err))
		}
	}
}

// Abandon sends nothing more, because the end of the run cannot be written.
func (s *Stream) Abandon() {
	s.cancel()
	s.warnKept(errOpenRecord)
}

// warnKept reports why the run is not delivered, and how to send it.
func (s *Stream) warnKept(cause error) {
	s.Warn(fmt.Errorf("the run is not delivered: %w; it is kept, and this sends it later: %s", cause, s.command(filepath.Dir(s.Path))))
}

// errOpenRecord: the end of the run is not in its spool.
var errOpenRecord = errors.New("its record is not closed")

func (s *Stream) deliver(ctx context.Context) error {
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
		if !errors.Is(err, spool.ErrLocked) || !wait.For(ctx, 100*time.Millisecond) {
			return err
		}
	}
	r, err := spool.Open(s.Path)
	if err != nil {
		return err
	}
	switch r.Run().State {
	case rt.StateDelivered: // by a drain that was faster
	case rt.StateRunning:
		err = errOpenRecord
	default:
		err = s.stream.Finish(ctx, spooled{r, &Privacy{}})
	}
	return errors.Join(err, r.Close())
}

// command is the shell command that sends what is in dir; the token is in the environment.
func (s *Stream) command(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return EnvEndpoint + "=" + ShellWord(s.client.Endpoint()) + " rt-spool --spool " + ShellWord(dir) + " drain"
}

// ShellWord quotes text, where necessary, as one word of a shell's command line.
func ShellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// PrivatePrefix begins the names of the private spool directories of streams.
const PrivatePrefix = "resource-tracker-"

// undelivered lists the private spools below temp, but one, that killed trackers have left.
func undelivered(temp, but string) (list []string) {
	dirs, err := filepath.Glob(filepath.Join(temp, PrivatePrefix+"*"))
	if err != nil {
		return nil // the name of the temporary directory has brackets
	}
	for _, dir := range dirs {
		if dir != but && IsPrivate(dir) && hasUndelivered(dir) {
			list = append(list, dir)
		}
	}
	return list
}

// IsPrivate reports whether only our user can write into a directory.
func IsPrivate(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&^os.ModeSetgid != os.ModeDir|0o700 { // a directory may inherit its parent's group
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

func hasUndelivered(dir string) bool {
	entries, err := spool.List(dir)
	isUndelivered := func(e spool.Entry) bool { return e.Err == nil && !e.Live && e.DeliveredAt.IsZero() }
	return err == nil && slices.ContainsFunc(entries, isUndelivered)
}
