package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

// sampleLine is line i, half a second after the line before. There are four workers on two hosts: 0
// sends to all others, and 1 reports no figures of its process.
func sampleLine(t *testing.T, i uint64) []byte {
	t.Helper()
	e := gempba.Envelope{
		Version: 1, TS: sampleStart.UnixMilli() + 500*int64(i), ElapsedSeconds: 100 + i/2,
		Topology: &gempba.Topology{Nodes: []gempba.TopologyNode{
			{Hostname: "n1", WorkerIDs: []uint32{0, 1}, Sockets: []gempba.Socket{{Name: "EPYC", LogicalCores: rt64(8)}}},
			{Hostname: "n2", SentinelWorkerID: 2, WorkerIDs: []uint32{2, 3}},
		}},
	}
	for id := range uint32(4) {
		host := []string{"n1", "n2"}[id/2]
		e.Topology.Identities = append(e.Topology.Identities, gempba.Identity{WorkerID: id, Hostname: host, PID: rt.Some(int64(1000 + id)), AllowedCPUs: []uint32{2 * id, 2*id + 1}})
		w := gempba.WorkerFrame{
			WorkerID: id, SeqNo: rt64(i), WorkerLocalMS: rt.Some(e.TS), TasksLocalTotal: rt64(500 * i), TasksSentTotal: rt64(10 * i), TasksRecvTotal: rt64(5 * i),
			TasksRunning: rt64(2), PendingCount: rt64(7), IdleMicros: rt64(125_000 * i),
		}
		if id != 1 {
			w.ProcessCPUPct, w.ProcessRSSBytes, w.ProcessThreads = rt.Some(float64(100+id)), rt64(1<<30), rt64(3)
		}
		if id == 0 {
			for to := uint32(1); to < 4; to++ {
				w.EdgesOut = append(w.EdgesOut, gempba.Edge{To: to, Bytes: uint64(to) << 20 * i, Count: uint64(to) * 5 * i})
			}
		}
		e.Workers = append(e.Workers, w)
	}
	for n, host := range []string{"n1", "n2"} {
		e.Nodes = append(e.Nodes, gempba.NodeFrame{
			SentinelWorkerID: uint32(2 * n), Hostname: host, SentinelLocalMS: rt.Some(e.TS), LogicalCores: rt64(8), MemTotalBytes: rt64(64 << 30), MemAvailBytes: rt64(48 << 30),
			Sockets: []gempba.SocketFrame{{CPUPct: rt.Some(37.5), MemTotalBytes: rt64(64 << 30)}}, Net: gempba.NetAggregate{BytesIn: rt64(1 << 20 * i), BytesOut: rt64(0)},
		})
	}
	line, err := gempba.AppendLine(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// server is the other end of each connection that a Telemetry makes.
type server struct{ conns chan net.Conn }

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case s.conns <- mine:
		return theirs, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// telemetry is a source with a server that sends what send writes.
func telemetry(t *testing.T, send func(net.Conn)) *Telemetry {
	s := &server{make(chan net.Conn)}
	go func() {
		for {
			select {
			case c := <-s.conns:
				send(c)
			case <-t.Context().Done():
				return
			}
		}
	}()
	return &Telemetry{Name: "127.0.0.1:9000", Dial: s.dial, Now: func() time.Time { return sampleNow }}
}

func TestGoldenTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range sizes {
			src := telemetry(t, func(c net.Conn) {
				fmt.Fprintf(c, "%s%s", sampleLine(t, 1), sampleLine(t, 2))
			})
			m := newModel(t.Context(), src, Options{Name: "rt-spool top", Zone: time.UTC, At: -1})
			m.brush.width, m.height = size.w, size.h
			answer(t, m, m.readSource())
			for i, p := range programPages {
				press(t, m, string(rune('1'+i)))
				golden(t, "gempba-"+p.title+"."+size.name+".txt", screenOf(m))
			}
			press(t, m, "9")
			expect(t, m, `\[5 matrix\]`, `^ +FROM +ALL +0 +1 +2 +3`)
			press(t, m, "right")
			expect(t, m, `^ +FROM +ALL +1 +2 +3`, `4 columns, from number 2 `)
			press(t, m, "left", "tab")
			expect(t, m, `\[1 workers\]`, `^>    0 n1`)
			press(t, m, "/", "n2", "enter")
			expect(t, m, `^>    2 n2`, `no n1`)
			press(t, m, "enter", "space")
			expect(t, m, `PAUSED`)
		}
	})
}

// A server that goes away comes back, and its frames go on.
func TestTelemetryComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := uint64(0)
		src := telemetry(t, func(c net.Conn) {
			for range 2 {
				n++
				if _, err := c.Write(sampleLine(t, n)); err != nil {
					return
				}
			}
			c.Close()
		})
		m := newModel(t.Context(), src, Options{Name: "rt-spool top", Zone: time.UTC, At: -1})
		m.brush.width, m.height = 80, 24
		answer(t, m, m.readSource())
		synctest.Wait()
		second(t, m)
		expect(t, m, `^trying again: 127.0.0.1:9000 has closed the connection`, `^>    0 n1`)
		time.Sleep(retryAfter + time.Millisecond)
		synctest.Wait()
		second(t, m)
		if got := m.program().newest.TS - sampleStart.UnixMilli(); got != 2000 {
			t.Errorf("the newest line is of %d ms", got)
		}
	})
}

// Whatever a server sends, there is one clear error, or what it sent rightly.
func TestTelemetryOfBadServers(t *testing.T) {
	for name, c := range map[string]struct {
		send func(t *testing.T, c net.Conn)
		want string
	}{
		"nothing":     {func(*testing.T, net.Conn) {}, "127.0.0.1:9000 has sent no line in 10s: is it the telemetry of a GemPBA program?"},
		"goes away":   {func(_ *testing.T, c net.Conn) { c.Close() }, "127.0.0.1:9000 has closed the connection"},
		"half a line": {func(_ *testing.T, c net.Conn) { fmt.Fprint(c, `{"ts":`); c.Close() }, "ends in the middle of a line"},
		"garbage":     {func(_ *testing.T, c net.Conn) { c.Write(bytes.Repeat([]byte("HTTP/1.1 400\r\n"), 200)) }, "it is no telemetry of GemPBA"},
		"no end":      {func(_ *testing.T, c net.Conn) { c.Write(bytes.Repeat([]byte("x"), 10<<20)) }, "passes the format's limit"},
		"a newer one": {func(_ *testing.T, c net.Conn) { fmt.Fprintln(c, `{"version":2,"ts":1}`) }, "its schema is newer than this program"},
		"a bad line":  {func(t *testing.T, c net.Conn) { fmt.Fprintf(c, "%s{\n%s", sampleLine(t, 1), sampleLine(t, 2)) }, ""},
		"nan": {func(_ *testing.T, c net.Conn) {
			fmt.Fprintln(c, `{"ts":1,"workers":[{"worker_id":0,"process_cpu_pct":nan}],"nodes":[]}`)
		}, ""},
		"a null topology": {func(_ *testing.T, c net.Conn) { fmt.Fprintln(c, `{"ts":1,"topology":null,"workers":[],"nodes":[]}`) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := telemetry(t, func(conn net.Conn) { c.send(t, conn) })
				f, err := src.Read(t.Context(), Wanted{})
				if c.want == "" && (err != nil || f.Program == nil) {
					t.Fatalf("%v, %v", f, err)
				}
				if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("%v; want %s", err, c.want)
				}
			})
		})
	}
	src := &Telemetry{Name: "x", Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("refused") }}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if _, err := src.Read(ctx, Wanted{}); err == nil || !strings.Contains(err.Error(), "connect to the telemetry: refused") {
		t.Error(err)
	}
}

func TestOnceOfTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := telemetry(t, func(c net.Conn) { fmt.Fprintf(c, "%s%s", sampleLine(t, 1), sampleLine(t, 2)) })
		var text bytes.Buffer
		if _, err := Print(t.Context(), src, Options{Name: "rt-spool top", Zone: time.UTC}, &text, 80); err != nil {
			t.Fatal(err)
		}
		golden(t, "gempba-once.txt", text.String())
		doc := onceJSON(t, src, Options{Name: "rt-spool top", Zone: time.UTC})
		var got struct {
			Workers []map[string]any `json:"workers"`
			Traffic []map[string]any `json:"traffic"`
		}
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Workers) != 4 || got.Workers[0]["tasks_local_per_sec"] != 1000.0 || got.Workers[1]["process_cpu_pct"] != nil || got.Traffic[0]["bytes_per_sec"] != 6.0*(1<<20) {
			t.Errorf("%s", doc)
		}
	})
}

// A run that has kept the frames of its program shows the frames of the moment.
func TestFramesOfARun(t *testing.T) {
	dir := t.TempDir()
	path, w := sampleFile(t, dir, 12, 1, false)
	for i := range uint64(40) {
		at := sampleStart.Add(10*time.Second + time.Duration(i)*500*time.Millisecond)
		if err := w.Record(rt.ForeignReport{Time: at.UnixNano(), Source: "gempba", Body: bytes.TrimSpace(sampleLine(t, i+20))}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, w, 1, 31)
	m := start(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: -1}, 80, 24)
	press(t, m, "shift+tab")
	expect(t, m, `\[14 matrix\]$`, `^>    0 +354M +·`)
	press(t, m, "shift+tab")
	expect(t, m, `\[13 traffic\] 14 matrix`, `0 +3 +177M +885 +6.0M +30`)
	press(t, m, "left")
	expect(t, m, `0:00:29 of`, `0 +3 +17[0-9]M`)
	press(t, m, "home")
	expect(t, m, `^its program had broadcast nothing yet`)
	press(t, m, "end", "9", "tab")
	expect(t, m, `\[10 workers\]`, `^>    0 n1 +100.0`)
	if doc := string(onceJSON(t, File(path), Options{Name: "rt-spool top", Zone: time.UTC, Open: path, At: 20 * time.Second})); !strings.Contains(doc, `"tasks_local_per_sec":1000,`) {
		t.Error(doc)
	}
}

func onceJSON(t *testing.T, src Source, o Options) []byte {
	t.Helper()
	_, doc, err := Document(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
