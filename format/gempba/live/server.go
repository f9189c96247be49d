// Package live broadcasts what runs on this node as GemPBA's telemetry. It reads the
// processes and the node at a cadence that clients may change, and sends each line to all
// clients. It never waits for a client.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/internal/recovery"
)

// FrameSource is what a Server broadcasts. One goroutine uses it.
type FrameSource interface {
	// Workers reads all workers.
	Workers(now time.Time) []gempba.WorkerFrame
	// Nodes reads the hosts. It is called after the first Workers.
	Nodes(now time.Time) []gempba.NodeFrame
	// Topology describes where the workers of the last reading run.
	Topology() *gempba.Topology
	// Promote makes a worker the sentinel of its host, if the worker exists.
	Promote(worker uint32)
}

// Limits of the cost of clients.
const (
	// MaxClients is how many clients can be connected.
	MaxClients = 256
	// queued is how many lines wait for a client. One that is further behind is dropped.
	queued = 4
	// sendBuffer limits what the kernel keeps for such a client, in bytes.
	sendBuffer = 256 << 10
)

// Server broadcasts a source to its clients and handles their control lines. It reads
// nothing while it has no client.
type Server struct {
	source  FrameSource
	log     func(error)
	started time.Time

	controls chan Control
	mu       sync.Mutex
	clients  map[*client]bool
	closed   bool
	done     sync.WaitGroup // all goroutines of clients and listeners
	arrived  chan struct{}  // the first client has connected
}

// Control is a control line, and whether its sender may control workers.
type Control struct {
	gempba.Control
	Trusted bool
}

// NewServer returns a server without clients. log gets, from several goroutines, why it drops one.
func NewServer(source FrameSource, log func(error)) *Server {
	return &Server{
		source: source, log: log, started: time.Now(),
		controls: make(chan Control, 16), clients: map[*client]bool{}, arrived: make(chan struct{}, 1),
	}
}

// Run broadcasts until ctx is done, and returns when all clients are disconnected.
func (s *Server) Run(ctx context.Context) {
	defer s.close()
	b := newBroadcast(s.source, s.started)
	b.skip(time.Now())
	timer := time.NewTimer(time.Until(b.next()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.arrived: // the first line is sent at once
			b.workers.next, b.nodes.next = time.Time{}, time.Time{}
			s.tick(&b, time.Now())
		case c := <-s.controls:
			b.obey(c, time.Now())
		case <-timer.C:
			s.tick(&b, time.Now())
		}
		timer.Reset(time.Until(b.next()))
	}
}

// Print writes the lines that a client would get until ctx is done or a write fails.
func Print(ctx context.Context, source FrameSource, w io.Writer) error {
	b := newBroadcast(source, time.Now())
	for {
		line, err := b.line(time.Now())
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("print the telemetry: %w", err)
		}
		if !recovery.Pause(ctx, time.Until(b.next())) {
			return nil
		}
	}
}

// broadcast is the state of Run.
type broadcast struct {
	source         FrameSource
	started        time.Time
	workers, nodes cadence
	workerFrames   []gempba.WorkerFrame // newest
	nodeFrames     []gempba.NodeFrame
}

// cadence schedules the readings of one kind of frames at multiples of an interval since start. A
// late reading does not delay later ones. The readings of two cadences coincide at common
// multiples.
type cadence struct {
	start, next time.Time
	every       time.Duration
}

// due reports whether it is time for a reading, and schedules the one after it.
func (c *cadence) due(now time.Time) bool {
	if now.Before(c.next) {
		return false
	}
	c.next = c.after(now)
	return true
}

// set changes the interval. An overdue reading stays due, because otherwise a client could suppress
// it.
func (c *cadence) set(every time.Duration, now time.Time) {
	c.every = every
	if now.Before(c.next) {
		c.next = c.after(now)
	}
}

// after returns the next instant of the grid.
func (c *cadence) after(now time.Time) time.Time {
	return now.Add(c.every - now.Sub(c.start)%c.every)
}

func newBroadcast(source FrameSource, started time.Time) broadcast {
	now := time.Now()
	return broadcast{
		source: source, started: started,
		workers: cadence{start: now, every: gempba.WorkerInterval}, nodes: cadence{start: now, every: gempba.NodeInterval},
	}
}

// next returns the time of the next line: the time of the next reading.
func (b *broadcast) next() time.Time {
	if b.nodes.next.Before(b.workers.next) {
		return b.nodes.next
	}
	return b.workers.next
}

// skip passes over the readings that are due.
func (b *broadcast) skip(now time.Time) {
	b.workers.due(now)
	b.nodes.due(now)
}

func (b *broadcast) obey(c Control, now time.Time) {
	switch c.Kind {
	case gempba.SetWorkerInterval:
		b.workers.set(c.Interval(), now)
	case gempba.SetNodeInterval:
		b.nodes.set(c.Interval(), now)
	case gempba.BeNodeSentinel:
		if worker, ok := c.WorkerID.Get(); ok && c.Trusted {
			b.source.Promote(worker)
			b.nodes.next = b.next()
		}
	}
}

// tick sends one line if there is a client.
func (s *Server) tick(b *broadcast, now time.Time) {
	s.mu.Lock()
	isEmpty := len(s.clients) == 0
	s.mu.Unlock()
	if isEmpty {
		b.skip(now)
		return
	}
	line, err := b.line(now)
	if err != nil {
		s.log(err)
		return
	}
	s.send(line)
}

// line reads the frames that are due, and returns a line with the newest frames.
func (b *broadcast) line(now time.Time) ([]byte, error) {
	if b.workers.due(now) {
		b.workerFrames = b.source.Workers(now)
	}
	if b.nodes.due(now) {
		b.nodeFrames = b.source.Nodes(now)
	}
	return gempba.AppendLine(nil, &gempba.Envelope{
		Version: gempba.SchemaVersion, TS: now.UnixMilli(), ElapsedSeconds: uint64(now.Sub(b.started) / time.Second),
		Workers: b.workerFrames, Nodes: b.nodeFrames, Topology: b.source.Topology(),
	})
}

// send queues a line, which is never changed, for all clients.
func (s *Server) send(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		select {
		case c.lines <- line:
		default:
			s.drop(c, fmt.Errorf("it is %d lines behind", queued))
		}
	}
}

// drop disconnects a client and logs the reason. s.mu is held.
func (s *Server) drop(c *client, why error) {
	if !s.clients[c] {
		return
	}
	delete(s.clients, c)
	close(c.lines)
	_ = c.conn.Close() // an error does not matter now
	if why != nil {
		s.done.Go(func() { // s.mu is held: a log that blocks must not block the others
			defer recovery.Handle(func(error) {}) // the log itself failed
			s.log(fmt.Errorf("the telemetry's client %s is dropped: %w", c.name, why))
		})
	}
}

func (s *Server) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.clients {
		s.drop(c, nil)
	}
	s.mu.Unlock()
	s.done.Wait()
}

// Add serves one more client until it disconnects or is dropped. A trusted client may
// control workers. The server always closes conn.
func (s *Server) Add(conn net.Conn, name string, trusted bool) {
	c := &client{conn: conn, name: name, trusted: trusted, lines: make(chan []byte, queued)}
	if b, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer) // the default of the kernel has no limit that matters here
	}
	s.mu.Lock()
	full := len(s.clients) >= MaxClients
	if full || s.closed {
		s.mu.Unlock()
		_ = conn.Close() // nothing was sent to it
		if full {
			s.log(fmt.Errorf("the telemetry's client %s is not served: there are too many clients (%d)", name, MaxClients))
		}
		return
	}
	if len(s.clients) == 0 {
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	}
	s.clients[c] = true
	s.done.Go(func() {
		defer recovery.Handle(func(err error) { s.left(c, err) })
		s.write(c)
	})
	s.done.Go(func() {
		defer recovery.Handle(func(err error) { s.left(c, err) })
		s.read(c)
	})
	s.mu.Unlock()
}

// client is one connection. Its lines wait in a channel, which the server closes.
type client struct {
	conn    net.Conn
	name    string
	trusted bool
	lines   chan []byte
}

// write sends the queued lines until the server drops the client.
func (s *Server) write(c *client) {
	for line := range c.lines {
		if _, err := c.conn.Write(line); err != nil {
			s.left(c, gone(fmt.Errorf("its connection failed: %w", err)))
			return
		}
	}
}

// read reads the client's control lines until it disconnects.
func (s *Server) read(c *client) {
	for control, err := range gempba.Controls(c.conn) {
		if err != nil {
			s.left(c, gone(err))
			return
		}
		select {
		case s.controls <- Control{control, c.trusted}:
		default: // it came faster than the broadcast handles them
		}
	}
	s.left(c, nil)
}

func (s *Server) left(c *client, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c, why)
}

// gone returns err, or nil if it says that the client has disconnected.
func gone(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
