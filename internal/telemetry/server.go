package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Source is what a Server shows. It is used by one goroutine.
type Source interface {
	// Workers looks at all workers, now.
	Workers(now time.Time) []gempba.WorkerFrame
	// Nodes looks at the hosts, now. It follows Workers.
	Nodes(now time.Time) []gempba.NodeFrame
	// Topology says where the workers of the newest look are.
	Topology() *gempba.Topology
	// Promote makes a worker the sentinel of its host, if it is there.
	Promote(worker uint32)
}

// Bounds of what clients cost.
const (
	// MaxClients is how many there can be at once.
	MaxClients = 256
	// queued is how many lines wait for a client that does not read. One that is
	// further behind is dropped.
	queued = 4
	// sendBuffer bounds what the kernel keeps for such a client, in bytes.
	sendBuffer = 256 << 10
)

// Server broadcasts a source to its clients and obeys their control lines. While it
// has no client it looks at nothing.
type Server struct {
	source  Source
	log     func(error)
	started time.Time

	controls chan Control
	mu       sync.Mutex
	clients  map[*client]bool
	closed   bool
	done     sync.WaitGroup // all goroutines of clients and listeners
	arrived  chan struct{}  // a client came, and there was none
}

// Control is a control line and whether its sender may give orders to workers.
type Control struct {
	gempba.Control
	Trusted bool
}

// NewServer returns a server without clients. log is told why each client was
// dropped, in one line, from several goroutines.
func NewServer(source Source, log func(error)) *Server {
	return &Server{
		source: source, log: log, started: time.Now(),
		controls: make(chan Control, 16), clients: map[*client]bool{}, arrived: make(chan struct{}, 1),
	}
}

// Run broadcasts until ctx is done, and returns when all clients are gone.
func (s *Server) Run(ctx context.Context) {
	defer s.close()
	b := newBroadcast(s.source, s.started)
	timer := time.NewTimer(b.workerEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.arrived:
			s.tick(&b, time.Now()) // the first line comes at once
		case c := <-s.controls:
			b.obey(c)
		case <-timer.C:
			s.tick(&b, time.Now())
		}
		timer.Reset(time.Until(b.last.Add(b.workerEvery)))
	}
}

// Print writes the lines that a client would get, until ctx is done or one cannot be
// written. It waits for w.
func Print(ctx context.Context, source Source, w io.Writer) error {
	b := newBroadcast(source, time.Now())
	for {
		line, err := b.look(time.Now())
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("print the telemetry: %w", err)
		}
		if !pause(ctx, time.Until(b.last.Add(b.workerEvery))) {
			return nil
		}
	}
}

// broadcast is the state of Run.
type broadcast struct {
	source                 Source
	started                time.Time
	workerEvery, nodeEvery time.Duration
	last, lastNodes        time.Time // of the newest looks, by their schedule
	nodes                  []gempba.NodeFrame
}

func newBroadcast(source Source, started time.Time) broadcast {
	return broadcast{source: source, started: started, last: time.Now(), workerEvery: gempba.WorkerInterval, nodeEvery: gempba.NodeInterval}
}

func (b *broadcast) obey(c Control) {
	switch c.Kind {
	case gempba.SetWorkerInterval:
		b.workerEvery = c.Interval()
	case gempba.SetNodeInterval:
		b.nodeEvery = c.Interval()
	case gempba.BeNodeSentinel:
		if worker, ok := c.WorkerID.Get(); ok && c.Trusted {
			b.source.Promote(worker)
			b.lastNodes = time.Time{}
		}
	}
}

// tick sends one line, where there is a client.
func (s *Server) tick(b *broadcast, now time.Time) {
	if s.empty() {
		b.advance(now)
		return
	}
	line, err := b.look(now)
	if err != nil {
		s.log(err)
		return
	}
	s.send(line)
}

// advance keeps ticks on a grid: a late one makes none of the later ones late.
func (b *broadcast) advance(now time.Time) {
	b.last = now.Add(-(now.Sub(b.last) % b.workerEvery))
}

// look makes one line.
func (b *broadcast) look(now time.Time) ([]byte, error) {
	b.advance(now)
	e := gempba.Envelope{
		Version: gempba.SchemaVersion, TS: now.UnixMilli(), ElapsedSeconds: uint64(now.Sub(b.started) / time.Second),
		Workers: b.source.Workers(now),
	}
	// Node frames go out with a line: half a tick early is nearer than a whole one late.
	if b.lastNodes.IsZero() || now.Sub(b.lastNodes) >= b.nodeEvery-b.workerEvery/2 {
		b.nodes, b.lastNodes = b.source.Nodes(now), now
	}
	e.Nodes, e.Topology = b.nodes, b.source.Topology()
	return gempba.AppendLine(nil, &e)
}

func (s *Server) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients) == 0
}

// send gives a line, which nobody changes, to all clients.
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

// drop lets a client go, with one line of the log. s.mu is held.
func (s *Server) drop(c *client, why error) {
	if !s.clients[c] {
		return
	}
	delete(s.clients, c)
	close(c.lines)
	_ = c.conn.Close() // whatever it still had to say, it is gone
	if why != nil {
		s.done.Go(func() { // s.mu is held: a log that blocks holds up nobody
			defer recovery.Handle(func(error) {}) // it is the log that failed
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

// errFull: too many clients.
var errFull = errors.New("there are too many clients")

// Add serves one more client, until it leaves or is dropped. trusted says whether it
// may give orders to workers. The server closes conn, in any case.
func (s *Server) Add(conn net.Conn, name string, trusted bool) {
	c := &client{conn: conn, name: name, trusted: trusted, lines: make(chan []byte, queued)}
	if b, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer) // else the kernel keeps as much as it likes
	}
	s.mu.Lock()
	full := len(s.clients) >= MaxClients
	if full || s.closed {
		s.mu.Unlock()
		_ = conn.Close() // it has been told nothing
		if full {
			s.log(fmt.Errorf("the telemetry's client %s is not served: %w (%d)", name, errFull, MaxClients))
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
