package powerapi

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/recovery"
)

// queue has the reports that wait for a formula. Above the limit it drops and counts the oldest.
type queue struct {
	mu      sync.Mutex
	lines   [][]byte
	most    int
	dropped int64
	more    chan struct{} // signals that there are lines
}

func newQueue(most int) *queue {
	return &queue{most: most, more: make(chan struct{}, 1)}
}

func (q *queue) putLine(line []byte) {
	q.mu.Lock()
	q.lines = append(q.lines, line)
	q.bound()
	q.mu.Unlock()
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) bound() {
	if over := len(q.lines) - q.most; over > 0 {
		q.dropped += int64(over)
		q.lines = append(q.lines[:0:0], q.lines[over:]...)
	}
}

// putBack returns lines that were taken and did not arrive: they are the oldest.
func (q *queue) putBack(lines [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(lines[:len(lines):len(lines)], q.lines...)
	q.bound()
	if len(q.lines) > 0 {
		q.wake()
	}
}

// takeLine returns the oldest line, nil if there is none.
func (q *queue) takeLine() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return nil
	}
	line := q.lines[0]
	q.lines = q.lines[1:]
	return line
}

func (q *queue) counts() (waiting int, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines), q.dropped
}

// Pauses between two attempts to connect: each is twice the last plus a random part. So the nodes of a cluster do not
// connect at once.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
)

// sender sends the queued reports to a formula, in order.
type sender struct {
	queue   *queue
	address string
	pause   time.Duration // the first one, see firstPause
	log     *log.Logger
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	sent    int64 // lines that the formula's host has acknowledged; read it after run
}

// run returns when ctx is done.
func (s *sender) run(ctx context.Context) {
	pause, isLogged := s.pause, false
	for ctx.Err() == nil {
		conn, err := s.dial(ctx, "tcp", s.address)
		if err != nil {
			if !isLogged && ctx.Err() == nil {
				isLogged = true
				s.log.Printf("the formula at %s cannot be reached, its reports wait: %v", s.address, err)
			}
			recovery.Pause(ctx, pause+rand.N(pause))
			pause = min(2*pause, longestPause)
			continue
		}
		pause, isLogged = s.pause, false
		s.log.Printf("connected to the formula at %s", s.address)
		err = s.serve(ctx, conn)
		if ctx.Err() == nil {
			waiting, dropped := s.queue.counts()
			s.log.Printf("the formula at %s is gone, %d reports wait, %d were dropped so far: %v", s.address, waiting, dropped, err)
			recovery.Pause(ctx, pause) // a formula may accept connections and close them
		}
	}
}

// serve sends over one connection until it breaks. It waits for a formula that does not read.
func (s *sender) serve(ctx context.Context, conn net.Conn) error {
	closed := make(chan error, 1)
	wake := func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) } // it fails only for a broken connection
	defer context.AfterFunc(ctx, wake)()
	go func() {
		defer recovery.Handle(func(err error) { closed <- err; wake() })
		_, err := conn.Read(make([]byte, 1)) // a formula sends nothing: this is the end of the connection
		closed <- fmt.Errorf("it closed the connection: %v", err)
		wake()
	}()
	f := inFlight{conn: conn}
	defer func() {
		_ = conn.Close()
		s.sent += f.arrived
	}()
	for {
		line := s.queue.takeLine()
		if line == nil {
			select {
			case <-s.queue.more:
				continue
			case err := <-closed:
				s.queue.putBack(f.land())
				return err
			case <-ctx.Done():
				s.queue.putBack(f.land())
				return ctx.Err()
			}
		}
		f.send(line)
		if n, err := conn.Write(line); err != nil {
			f.unwritten = int64(len(line) - n)
			s.queue.putBack(f.land())
			return err
		}
	}
}

// inFlight has the lines that were written to a connection and may not have arrived.
type inFlight struct {
	conn    net.Conn
	lines   [][]byte
	begin   int64 // offset of the first of lines in the stream, in bytes
	end     int64 // offset of the end of the last
	arrived int64 // lines

	unwritten int64 // bytes of the last line that the kernel did not take
}

// send records a line before it is written.
func (f *inFlight) send(line []byte) {
	f.trim(f.acknowledged())
	f.lines = append(f.lines, line)
	f.end += int64(len(line))
}

// acknowledged returns how many bytes the other host has confirmed: all written ones without TCP.
func (f *inFlight) acknowledged() int64 {
	tcp, ok := f.conn.(*net.TCPConn)
	if !ok {
		return f.end - f.unwritten
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return f.begin
	}
	left := -1
	if raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }) != nil || err != nil || left < 0 {
		return f.begin
	}
	return f.end - f.unwritten - int64(left)
}

// trim drops the lines that arrived.
func (f *inFlight) trim(confirmed int64) {
	for len(f.lines) > 0 && f.begin+int64(len(f.lines[0])) <= confirmed {
		f.begin += int64(len(f.lines[0]))
		f.lines = f.lines[1:]
		f.arrived++
	}
}

// land returns the lines that the other host had not confirmed. Confirmed, unread lines are lost.
func (f *inFlight) land() [][]byte {
	f.trim(f.acknowledged())
	return f.lines
}
