package live

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
)

// fake is a source that counts its readings.
type fake struct {
	workers, nodes atomic.Int64
	promoted       []uint32
}

func (f *fake) Workers(now time.Time) []gempba.WorkerFrame {
	f.workers.Add(1)
	return []gempba.WorkerFrame{{WorkerID: 3}}
}

func (f *fake) Nodes(time.Time) []gempba.NodeFrame {
	return []gempba.NodeFrame{{SentinelWorkerID: 3, Hostname: fmt.Sprint("look ", f.nodes.Add(1))}}
}

func (f *fake) Topology() *gempba.Topology { return &gempba.Topology{} }
func (f *fake) Promote(worker uint32)      { f.promoted = append(f.promoted, worker) }

// bench runs a server in a bubble.
type bench struct {
	t      *testing.T
	source *fake
	server *Server
	mu     sync.Mutex
	logged []string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, source: &fake{}}
	b.server = NewServer(b.source, func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.logged = append(b.logged, err.Error())
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.server.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// log returns what was logged when all goroutines are blocked.
func (b *bench) log() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.logged)
}

// peer is a client's end.
type peer struct {
	net.Conn
	dec *gempba.Decoder
}

func (b *bench) connect(name string, trusted bool) *peer {
	ours, theirs := net.Pipe()
	b.server.Add(theirs, name, trusted)
	b.t.Cleanup(func() { _ = ours.Close() })
	return &peer{ours, gempba.NewDecoder(ours)}
}

// next reads a line and returns how long it took.
func (b *bench) next(p *peer) (time.Duration, *gempba.Envelope) {
	b.t.Helper()
	began := time.Now()
	e, err := p.dec.Next()
	if err != nil {
		b.t.Fatal(err)
	}
	return time.Since(began), e
}

func (b *bench) every(p *peer, want time.Duration) {
	b.t.Helper()
	for range 3 {
		if took, _ := b.next(p); took != want {
			b.t.Errorf("a line after %s, want %s", took, want)
		}
	}
}

func (p *peer) say(line string) { _, _ = io.WriteString(p, line) } // a client that was dropped notices when it reads

func TestCadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		time.Sleep(1700 * time.Millisecond)
		synctest.Wait()
		if looks := b.source.workers.Load(); looks != 0 {
			t.Errorf("%d looks without a client", looks)
		}
		p := b.connect("one", false)
		if took, e := b.next(p); took != 0 || e.Version != 1 || e.Workers[0].WorkerID != 3 || e.ElapsedSeconds != 1 {
			t.Errorf("the first line after %s: %+v", took, e)
		}
		if took, _ := b.next(p); took != 300*time.Millisecond {
			t.Errorf("the second line after %s, it is not on the grid", took)
		}
		b.every(p, 500*time.Millisecond)
		synctest.Wait()
		looks := b.source.nodes.Load()
		for range 4 {
			b.next(p)
		}
		synctest.Wait()
		if got := b.source.nodes.Load() - looks; got != 2 {
			t.Errorf("%d looks at the node in two seconds", got)
		}
	})
}

func TestControlLinesChangeTheCadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := b.connect("one", false)
		b.next(p)
		b.next(p)
		for _, c := range []struct {
			line string
			want time.Duration
		}{
			{`{"kind":"set_worker_interval_ms","value":100}`, 100 * time.Millisecond},
			{`{"kind":"later","value":[]}`, 100 * time.Millisecond},
			{`{"kind":"set_worker_interval_ms","value":1}`, 50 * time.Millisecond},
			{`{ "control_kind": "SET_NODE_INTERVAL_MS", "value": 600000 }`, 50 * time.Millisecond},
			{`{ "kind": "SET_WORKER_INTERVAL_MS", "value": 2000 }`, 2 * time.Second},
			{`{"kind":"set_worker_interval_ms","value":4000000000}`, 10 * time.Minute},
			{`{"kind":"set_worker_interval_ms","value":250}`, 250 * time.Millisecond},
		} {
			p.say(c.line + "\n")
			b.next(p) // from here on the lines are on the grid of the new cadence
			b.every(p, c.want)
		}
		p.say(`{"kind":"set_node_interval_ms","value":50}` + "\n")
		b.next(p)
		synctest.Wait()
		before := b.source.nodes.Load()
		b.next(p)
		b.next(p)
		synctest.Wait()
		if got := b.source.nodes.Load() - before; got != 2 {
			t.Errorf("%d looks at the node in two ticks", got)
		}
		if log := b.log(); len(log) != 0 {
			t.Errorf("logged %q", log)
		}
	})
}

// Workers and hosts have independent cadences.
func TestCadencesAreIndependent(t *testing.T) {
	for _, c := range []struct {
		line           string
		workers, nodes int64 // readings in 6 s
	}{
		{`{"kind":"set_worker_interval_ms","value":6000}`, 1, 6},
		{`{"kind":"set_worker_interval_ms","value":750}`, 8, 6},
		{`{"kind":"set_worker_interval_ms","value":300}`, 20, 6},
		{`{"kind":"set_node_interval_ms","value":100}`, 12, 60},
		{`{"kind":"set_node_interval_ms","value":6000}`, 12, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.connect("one", false)
			go io.Copy(io.Discard, p)
			time.Sleep(100 * time.Millisecond)
			p.say(c.line + "\n")
			time.Sleep(6 * time.Second) // the grid's instants are within
			synctest.Wait()
			workers, nodes := b.source.workers.Load()-1, b.source.nodes.Load()-1 // without the readings of the first line
			if workers != c.workers || nodes != c.nodes {
				t.Errorf("%s: %d readings of workers and %d of hosts in 6 s, want %d and %d", c.line, workers, nodes, c.workers, c.nodes)
			}
		})
	}
}

func TestOnlyTheTrustedPromote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.connect("stranger", false).say(`{"kind":"be_node_sentinel","worker_id":1}` + "\n")
		b.connect("owner", true).say(`{"kind":"be_node_sentinel","worker_id":3}` + "\n" + `{"kind":"be_node_sentinel"}` + "\n")
		synctest.Wait()
		if !slices.Equal(b.source.promoted, []uint32{3}) {
			t.Errorf("promoted %v", b.source.promoted)
		}
	})
}

// The server drops the stalled half of 64 clients, and the other half does not wait.
func TestStalledClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var reading []*peer
		for i := range 64 {
			p := b.connect(fmt.Sprint("number ", i), false)
			if i%2 == 0 {
				reading = append(reading, p)
			}
		}
		var all sync.WaitGroup
		for _, p := range reading {
			all.Go(func() {
				b.next(p)
				for range 20 {
					if took, _ := b.next(p); took != 500*time.Millisecond {
						t.Errorf("a line after %s", took)
					}
				}
			})
		}
		all.Wait()
		log := b.log()
		// One reading for each tick, however many watch: clients that came after the first
		// have had their lines a tick later.
		if looks := b.source.workers.Load(); looks != 21 && looks != 22 {
			t.Errorf("%d looks for 21 lines", looks)
		}
		if len(log) != 32 || !strings.Contains(log[0], "is dropped: it is 4 lines behind") {
			t.Errorf("%d lines in the log: %.3q", len(log), log)
		}
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		if got := len(b.server.clients); got != 32 {
			t.Errorf("%d clients are left", got)
		}
	})
}

// Whatever a client sends, only that client is dropped, and the log has one line.
func TestBadClients(t *testing.T) {
	for name, c := range map[string]struct {
		send  []byte
		leave bool
		want  string
	}{
		"garbage":         {[]byte("\x16\x03\x01\x02\x00\n"), false, "it is no telemetry"},
		"HTTP":            {[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), false, "it is no telemetry"},
		"half a line":     {[]byte(`{"kind":"set_worker_inter`), true, "in the middle of a line"},
		"no end":          {bytes.Repeat([]byte("x"), 10<<20), false, "more than 4096 bytes"},
		"a broken value":  {[]byte(`{"kind":"set_worker_interval_ms","value":"soon"}` + "\n"), false, "it is no telemetry"},
		"one that leaves": {nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				good, bad := b.connect("good", false), b.connect("bad", false)
				go io.Copy(io.Discard, bad)
				b.next(good)
				synctest.Wait() // a client that leaves during a line is not counted
				if _, err := bad.Write(c.send); err == nil && c.leave {
					_ = bad.Close()
				}
				b.every(good, 500*time.Millisecond)
				log := b.log()
				switch {
				case c.want == "" && len(log) != 0:
					t.Errorf("logged %q", log)
				case c.want != "" && (len(log) != 1 || !strings.Contains(log[0], c.want) || !strings.Contains(log[0], "bad")):
					t.Errorf("logged %q, want one line with %q", log, c.want)
				}
				b.server.mu.Lock()
				defer b.server.mu.Unlock()
				if got := len(b.server.clients); got != 1 {
					t.Errorf("%d clients are left", got)
				}
			})
		})
	}
}

func TestTooManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range MaxClients {
			b.connect(fmt.Sprint(i), false)
		}
		p := b.connect("the last", false)
		if _, err := p.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("it is served: %v", err)
		}
		if log := b.log(); len(log) != 1 || !strings.Contains(log[0], "too many clients") {
			t.Errorf("logged %q", log)
		}
	})
}

// Over real sockets, one that reads gets whole lines while others do not read.
func TestRealSockets(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"127.0.0.1:0", "unix:" + t.TempDir() + "/s"} {
		l := listen(t, text)
		done := make(chan struct{})
		go func() { defer close(done); b.server.Accept(t.Context(), l) }()
		a, err := ParseAddress(l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			stalled, err := a.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stalled.Close()
		}
		conn, err := a.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, `{"kind":"set_worker_interval_ms","value":50}`+"\n"); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(conn)
		for range 4 {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
			if _, err := gempba.Parse(lines.Bytes()); err != nil {
				t.Error(err)
			}
		}
		_ = l.Close()
		<-done
	}
}
