package drain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/streaming"
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

// StreamOptions are the options of a Stream. A private spool is removed once the run is delivered.
type StreamOptions struct {
	streaming.Order
	Temp string // where private spools of earlier runs may be
	// Host completes the known facts about the host before the registration; false if
	// ctx is done first. firstGPUs returns the GPUs of the first reading.
	Host func(ctx context.Context, known rt.Host, firstGPUs func() []rt.GPUReading) (rt.Host, bool)
	Warn func(error)
}

// NewStream returns a Stream to a receiver. It does not connect.
func (r Receiver) NewStream(o StreamOptions) (*Stream, error) {
	client, putter, err := r.Connect()
	if err != nil {
		return nil, err
	}
	stream := upload.NewStream(client, putter, upload.DrainOptions{Tries: 3, Scope: o.Scope})
	return &Stream{StreamOptions: o, client: client, stream: stream, done: make(chan struct{})}, nil
}

// Start begins to send in the background. It must be called once.
func (s *Stream) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.sendRows(ctx)
}

// sendRows sends what is committed until ctx is done.
func (s *Stream) sendRows(ctx context.Context) {
	defer close(s.done)
	defer recovery.Handle(func(err error) { s.Warn(fmt.Errorf("nothing is sent until the end of the run: %w", err)) })
	r, err := spool.Open(s.Path)
	if err != nil {
		s.Warn(fmt.Errorf("nothing is sent until the end of the run: %w", err))
		return
	}
	defer r.Close() // what was written through it is durable
	for _, dir := range undelivered(s.Temp, filepath.Dir(s.Path)) {
		s.Warn(fmt.Errorf("an earlier run was not delivered; this sends it: %s", streaming.DrainCommand(s.client.Endpoint(), dir)))
	}
	host, ok := s.Host(ctx, r.Host(), func() []rt.GPUReading { return firstGPUs(ctx, r) })
	if !ok {
		return
	}
	if err := r.UpdateHost(host); err != nil {
		s.Warn(err)
	}
	s.stream.Run(ctx, spooled{r, r.Delivery(), &Privacy{}}, s.Every, s.Warn)
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
		if !recovery.Pause(ctx, 20*time.Millisecond) {
			return nil
		}
	}
}

// Leave ends the background sending before the run ends. It locks the spool, where no
// other process has the lock, so that no drain takes the run before Finish.
func (s *Stream) Leave() {
	s.cancel()
	_ = s.lockSpool(context.Background()) // deliver retries
}

// lockSpool takes the lock of the spool for the life of this process.
func (s *Stream) lockSpool(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlock != nil {
		return nil
	}
	var err error
	s.unlock, err = spool.LockDir(ctx, filepath.Dir(s.Path))
	return err
}

// Finish delivers the rest of the ended run until ctx is done. After an error the run waits in its spool for a
// drain.
func (s *Stream) Finish(ctx context.Context) error {
	if err := s.deliver(ctx); err != nil {
		return err
	}
	for _, p := range s.stream.Problems() {
		s.Warn(errors.New(p.Error))
	}
	if s.Private {
		if err := os.RemoveAll(filepath.Dir(s.Path)); err != nil {
			s.Warn(fmt.Errorf("the run is delivered, its spool stays: %w", err))
		}
	}
	return nil
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
		err := s.lockSpool(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, spool.ErrLocked) || !recovery.Pause(ctx, 100*time.Millisecond) {
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
		s.recordCost(r)
		err = s.stream.Finish(ctx, spooled{r, r.Delivery(), &Privacy{}})
	}
	return errors.Join(err, r.Close())
}

// recordCost records what this process has used until the end of the run: the tracker records only its own use.
func (s *Stream) recordCost(r *spool.Reader) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	if err == nil {
		err = r.AddEvent(rt.Event{
			Time: time.Now(), Kind: "tracker", Name: "stream", Status: "ok",
			Detail: fmt.Sprintf("cpu_user_secs=%.3f cpu_system_secs=%.3f max_rss_kib=%d", float64(u.Utime.Nano())/1e9, float64(u.Stime.Nano())/1e9, u.Maxrss),
		})
	}
	if err != nil {
		s.Warn(fmt.Errorf("what the sending has used is not recorded: %w", err))
	}
}

// undelivered lists the private spools below temp, but one, that killed trackers have left.
func undelivered(temp, but string) (list []string) {
	dirs, err := filepath.Glob(filepath.Join(temp, streaming.PrivatePrefix+"*"))
	if err != nil {
		return nil // the name of the temporary directory has brackets
	}
	for _, dir := range dirs {
		if dir != but && streaming.IsPrivate(dir) && hasUndelivered(dir) {
			list = append(list, dir)
		}
	}
	return list
}

func hasUndelivered(dir string) bool {
	entries, err := spool.List(dir)
	isUndelivered := func(e spool.Entry) bool { return e.Err == nil && !e.Live && e.DeliveredAt.IsZero() }
	return err == nil && slices.ContainsFunc(entries, isUndelivered)
}
