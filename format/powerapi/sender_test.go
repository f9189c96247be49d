package powerapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// formula is a listener that can stall, close and come back.
type formula struct {
	t       *testing.T
	address string
	ln      net.Listener
	conn    net.Conn
	in      *bufio.Reader
}

func newFormula(t *testing.T) *formula {
	t.Helper()
	f := &formula{t: t, address: "127.0.0.1:0"}
	f.listen()
	return f
}

func (f *formula) listen() {
	f.t.Helper()
	ln, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.ln, f.address = ln, ln.Addr().String()
	f.t.Cleanup(func() { _ = ln.Close() }) // some are closed by then
}

func (f *formula) accept() {
	f.t.Helper()
	conn, err := f.ln.Accept()
	if err != nil {
		f.t.Fatal(err)
	}
	f.conn, f.in = conn, bufio.NewReader(conn)
	f.t.Cleanup(func() { _ = conn.Close() })
}

// next reads one number; false for a line that a close has cut.
func (f *formula) next() (int, bool) {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		return 0, false
	}
	var doc struct{ N int }
	if err := json.Unmarshal(line, &doc); err != nil {
		f.t.Fatalf("%v in %s", err, line)
	}
	return doc.N, true
}

func (f *formula) want(from, to int) {
	f.t.Helper()
	for n := from; n <= to; n++ {
		if got, ok := f.next(); !ok || got != n {
			f.t.Fatalf("report %d arrived, %v; want %d", got, ok, n)
		}
	}
}

func numbered(n, bytes int) []byte {
	return fmt.Appendf(nil, `{"n":%d,"pad":"%0*d"}`+"\n", n, bytes, 0)
}

func startSender(t *testing.T, address string, most int) (*sender, func()) {
	t.Helper()
	s := &sender{queue: newQueue(most), address: address, pause: time.Millisecond, log: log.New(io.Discard, "", 0), dial: (&net.Dialer{}).DialContext}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { s.run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return s, stop
}

// A formula that starts late, stops, and starts again gets all reports in order.
func TestStreamComesBack(t *testing.T) {
	f := newFormula(t)
	if err := f.ln.Close(); err != nil {
		t.Fatal(err)
	}
	s, stop := startSender(t, f.address, 1000)
	for n := 1; n <= 10; n++ {
		s.queue.putLine(numbered(n, 10))
	}
	f.listen()
	f.accept()
	f.want(1, 10)
	for _, c := range []io.Closer{f.conn, f.ln} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for n := 11; n <= 500; n++ {
		s.queue.putLine(numbered(n, 10))
	}
	f.listen()
	f.accept()
	f.want(11, 500)
	stop()
	if waiting, dropped := s.queue.counts(); waiting != 0 || dropped != 0 || s.sent != 500 {
		t.Errorf("%d wait, %d dropped, %d sent", waiting, dropped, s.sent)
	}
}

// With a stalled formula put does not block and the queue keeps its limit. Later reports are in order, and the
// dropped ones are counted.
func TestStreamStalls(t *testing.T) {
	const most, all, size = 50, 3000, 16 << 10
	f := newFormula(t)
	s, stop := startSender(t, f.address, most)
	f.accept()
	for n := 1; n <= all; n++ { // 48 MiB: more than the sockets hold
		s.queue.putLine(numbered(n, size))
		if waiting, _ := s.queue.counts(); waiting > most {
			t.Fatalf("%d wait", waiting)
		}
	}
	arrived, last := 0, 0
	for last < all {
		n, ok := f.next()
		if !ok || n <= last {
			t.Fatalf("report %d after %d, %v", n, last, ok)
		}
		arrived, last = arrived+1, n
	}
	stop()
	waiting, dropped := s.queue.counts()
	if dropped == 0 || waiting != 0 || arrived+int(dropped) != all {
		t.Errorf("%d arrived, %d were dropped, %d wait, of %d", arrived, dropped, waiting, all)
	}
}

// When a stalled formula closes, the reports in its buffer are lost. Those that its host
// had not confirmed are sent to the next formula, in order and once.
func TestStreamClosesWhileStalled(t *testing.T) {
	const most, all, size = 100, 2000, 16 << 10
	f := newFormula(t)
	s, stop := startSender(t, f.address, most)
	f.accept()
	s.queue.putLine(numbered(1, size))
	f.want(1, 1) // alone: among the others it may be the oldest, which is dropped
	for n := 2; n <= all; n++ {
		s.queue.putLine(numbered(n, size))
	}
	if err := f.conn.Close(); err != nil {
		t.Fatal(err)
	}
	f.accept()
	s.queue.putLine(numbered(all+1, size))
	last, arrived := 1, 0
	for last < all+1 {
		n, ok := f.next()
		if !ok || n <= last {
			t.Fatalf("report %d after %d, %v", n, last, ok)
		}
		arrived, last = arrived+1, n
	}
	stop()
	waiting, dropped := s.queue.counts()
	if waiting != 0 || s.sent+dropped != all+1 || arrived > int(s.sent) || dropped == 0 {
		t.Errorf("%d sent, %d dropped, %d wait, of %d", s.sent, dropped, waiting, all+1)
	}
}

func TestQueueBack(t *testing.T) {
	q := newQueue(3)
	for _, n := range []string{"c", "d"} {
		q.putLine([]byte(n))
	}
	q.putBack([][]byte{[]byte("a"), []byte("b")})
	var got []string
	for line := q.takeLine(); line != nil; line = q.takeLine() {
		got = append(got, string(line))
	}
	if _, dropped := q.counts(); dropped != 1 || !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("%v, %d dropped", got, dropped)
	}
}
