package gempba

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

func archive(tb testing.TB) map[string][]byte {
	tb.Helper()
	a, err := txtar.ParseFile("testdata/stream.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range a.Files {
		files[f.Name] = f.Data
	}
	if len(files) < 6 {
		tb.Fatalf("the archive has %d files", len(files))
	}
	return files
}

// again decodes a stream and encodes it.
func again(tb testing.TB, in []byte) []byte {
	tb.Helper()
	var out []byte
	for d := NewDecoder(bytes.NewReader(in)); ; {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err == nil {
			out, err = AppendLine(out, e)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func documents(tb testing.TB, lines []byte) (out []any) {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(lines))
	d.UseNumber()
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			tb.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func TestRecordedStream(t *testing.T) {
	files := archive(t)
	for name, in := range files {
		kind, base, _ := strings.Cut(name, "/")
		want := in
		switch kind {
		case "wants":
			continue
		case "writer":
			want = files["wants/"+base]
		}
		t.Run(name, func(t *testing.T) {
			got := again(t, in)
			if d := cmp.Diff(documents(t, want), documents(t, got)); d != "" {
				t.Errorf("decoded and encoded again (-want +got):\n%s", d)
			}
			if d := cmp.Diff(string(got), string(again(t, got))); d != "" {
				t.Errorf("what we write is not read as the same (-first +second):\n%s", d)
			}
		})
	}
}

func TestNeverNotFinite(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		e := Envelope{
			Version: SchemaVersion,
			Workers: []WorkerFrame{{ProcessCPUPct: rt.Some(f)}},
			Nodes:   []NodeFrame{{Sockets: []SocketFrame{{CPUPct: rt.Some(f)}}}},
		}
		line, err := AppendLine(nil, &e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(line, []byte(`"process_cpu_pct":0`)) || !bytes.Contains(line, []byte(`"cpu_pct":0`)) || !json.Valid(line) {
			t.Errorf("%v became %s", f, line)
		}
		got, err := Parse(line)
		if err != nil || got.Workers[0].ProcessCPUPct.Valid() || got.Nodes[0].Sockets[0].CPUPct.Valid() {
			t.Errorf("%v is read as %+v (%v)", f, got, err)
		}
	}
}

// A client that requires a number in each field can read a line without any value. rt reads the
// same line without inventing a value.
func TestTypedClientReadsUnreadValues(t *testing.T) {
	line, err := AppendLine(nil, &Envelope{
		Version: SchemaVersion, Workers: []WorkerFrame{{WorkerID: 3, TasksSentTotal: rt.Some[uint64](7)}},
		Nodes:    []NodeFrame{{Sockets: []SocketFrame{{}}}},
		Topology: &Topology{Nodes: []TopologyNode{{Sockets: []Socket{{}}}}, Identities: []Identity{{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(line, []byte("null")) {
		t.Errorf("it has a null: %s", line)
	}
	var typed struct {
		Workers []struct {
			TasksLocalTotal *uint64 `json:"tasks_local_total"`
		}
		Nodes []struct {
			Used  *uint64 `json:"cgroup_mem_used_bytes"`
			Limit *uint64 `json:"cgroup_mem_limit_bytes"`
		}
	}
	if err := json.Unmarshal(line, &typed); err != nil || typed.Workers[0].TasksLocalTotal == nil || typed.Nodes[0].Used == nil || typed.Nodes[0].Limit == nil {
		t.Errorf("a typed client reads %+v (%v) of %s", typed, err, line)
	}
	e, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	w, n, i := e.Workers[0], e.Nodes[0], e.Topology.Identities[0]
	isInvented := w.TasksLocalTotal.Valid() || n.CgroupMemUsedBytes.Valid() || n.Net.BytesIn.Valid() || i.PID.Valid() || i.AllowedCPUs != nil ||
		n.Sockets[0].MemUsedBytes.Valid() || e.Topology.Nodes[0].Sockets[0].LogicalCores.Valid()
	if isInvented || w.TasksSentTotal != rt.Some[uint64](7) || w.Unread != nil {
		t.Errorf("read back as %+v, %+v, %+v", w, n, i)
	}
}

func TestBadLines(t *testing.T) {
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	for _, c := range []struct {
		name, line string
		want       error
	}{
		{"garbage", "\x16\x03\x01\x02", ErrFormat},
		{"an HTTP request", "GET / HTTP/1.1", ErrFormat},
		{"a list", `[{"ts":1}]`, ErrFormat},
		{"two objects", `{"ts":1}{"ts":2}`, ErrFormat},
		{"no time", `{"version":1}`, ErrFormat},
		{"a time that is null", `{"ts":null}`, ErrFormat},
		{"a newer schema", `{"version":2,"ts":1,"workers":"later"}`, ErrVersion},
		{"no worker_id", `{"ts":1,"workers":[{"seq_no":1}]}`, ErrFormat},
		{"a negative counter", `{"ts":1,"workers":[{"worker_id":0,"seq_no":-1}]}`, ErrFormat},
		{"a counter above 64 bits", `{"ts":1,"workers":[{"worker_id":0,"seq_no":18446744073709551616}]}`, ErrFormat},
		{"workers that are no list", `{"ts":1,"workers":{}}`, ErrFormat},
		{"worker 1024", `{"ts":1,"workers":[{"worker_id":1024}]}`, ErrLimit},
		{"1025 workers", `{"ts":1,"workers":[` + many(1025, `{"worker_id":0}`) + `]}`, ErrLimit},
		{"an edge to 1024", `{"ts":1,"workers":[{"worker_id":0,"edges_out":[{"to":1024,"bytes":1,"count":1}]}]}`, ErrLimit},
		{"nine sockets", `{"ts":1,"nodes":[{"sentinel_worker_id":0,"sockets":[` + many(9, `{}`) + `]}]}`, ErrLimit},
		{"nine sockets of a topology", `{"ts":1,"topology":{"nodes":[{"sockets":[` + many(9, `{}`) + `]}]}}`, ErrLimit},
		{"CPU 8192", `{"ts":1,"topology":{"identities":[{"allowed_cpu_ids":[8192]}]}}`, ErrLimit},
		{"a long mask", `{"ts":1,"topology":{"identities":[{"allowed_cpu_mask":"` + strings.Repeat("f", 2049) + `"}]}}`, ErrLimit},
		{"a mask that is none", `{"ts":1,"topology":{"identities":[{"allowed_cpu_mask":"fg"}]}}`, ErrFormat},
		{"deep", `{"ts":1,"later":` + strings.Repeat("[", 100_000), ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(strings.NewReader(c.line + "\n" + `{"ts":7}` + "\n"))
			if _, err := d.Next(); !errors.Is(err, c.want) {
				t.Errorf("got the error %v, want %v", err, c.want)
			}
			if e, err := d.Next(); err != nil || e.TS != 7 {
				t.Errorf("the line after it: %v, %v", e, err)
			}
		})
	}
}

func TestHalfAndEndlessLines(t *testing.T) {
	d := NewDecoder(strings.NewReader(`{"ts":1}` + "\n\r\n" + `{"ts":2`))
	if e, err := d.Next(); err != nil || e.TS != 1 {
		t.Fatal(e, err)
	}
	for range 2 {
		if _, err := d.Next(); !errors.Is(err, ErrCut) {
			t.Errorf("half a line: %v", err)
		}
	}
	endless := &counted{r: io.LimitReader(zeros{}, 10<<20)}
	d = NewDecoder(endless)
	for range 2 {
		if _, err := d.Next(); !errors.Is(err, ErrLimit) {
			t.Errorf("10 MiB without an end: %v", err)
		}
	}
	if endless.n > MaxLine+128<<10 {
		t.Errorf("%d bytes were read of a line without an end", endless.n)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

func TestLimitsAreNotWritten(t *testing.T) {
	for name, e := range map[string]Envelope{
		"a worker": {Workers: []WorkerFrame{{WorkerID: MaxWorkers}}},
		"sockets":  {Nodes: []NodeFrame{{Sockets: make([]SocketFrame, MaxSockets+1)}}},
		"a CPU":    {Topology: &Topology{Identities: []Identity{{AllowedCPUs: []uint32{MaxCPUs}}}}},
	} {
		before := []byte("x")
		if got, err := AppendLine(before, &e); !errors.Is(err, ErrLimit) || string(got) != "x" {
			t.Errorf("%s: wrote %.40q, %v", name, got, err)
		}
	}
}

func TestMask(t *testing.T) {
	for mask, cpus := range map[string][]uint32{
		"0": {}, "1": {0}, "f": {0, 1, 2, 3}, "10": {4}, "30003": {0, 1, 16, 17},
		"8" + strings.Repeat("0", 2047): {8191},
	} {
		if got := Mask(cpus); got != mask {
			t.Errorf("the mask of %v is %s, want %s", cpus, got, mask)
		}
		got, err := ParseMask(mask)
		if err != nil || !cmp.Equal(got, cpus) {
			t.Errorf("the CPUs of %s are %v (%v), want %v", mask, got, err, cpus)
		}
	}
}

func TestControl(t *testing.T) {
	for _, c := range []struct {
		line string
		kind ControlKind
		ms   int64 // 0: not looked at
	}{
		{`{"kind":"set_worker_interval_ms","value":250}`, SetWorkerInterval, 250},
		{`{"kind":"set_node_interval_ms","value":60000}` + "\r\n", SetNodeInterval, 60000},
		{` { "value" : 100 , "kind" : "SET_WORKER_INTERVAL_MS" } `, SetWorkerInterval, 100},
		{`{"kind":"set_worker_interval_ms","value":0}`, SetWorkerInterval, 50},
		{`{"kind":"set_worker_interval_ms","value":-7}`, SetWorkerInterval, 50},
		{`{"kind":"set_worker_interval_ms","value":600001}`, SetWorkerInterval, 600000},
		{`{"kind":"set_worker_interval_ms","value":18446744073709551615}`, SetWorkerInterval, 600000},
		{`{"kind":"set_worker_interval_ms","value":1e999}`, SetWorkerInterval, 600000},
		{`{"control_kind":"SET_NODE_INTERVAL_MS","value":7500}`, SetNodeInterval, 7500},
		{`{"value":7500,"control_kind":"set_worker_interval_ms"}`, SetWorkerInterval, 7500},
		{`{"kind":"set_worker_interval_ms","value":250.9}`, SetWorkerInterval, 250},
		{`{"kind":"be_node_sentinel","worker_id":3}`, BeNodeSentinel, 0},
		{`{"kind":"be_kind","value":"later"}`, "be_kind", 0},
	} {
		got, err := ParseControl([]byte(c.line))
		if err != nil || got.Kind != c.kind || c.ms != 0 && got.Interval().Milliseconds() != c.ms {
			t.Errorf("%s is %+v, every %s (%v)", c.line, got, got.Interval(), err)
		}
	}
	for _, line := range []string{"", "x", "1", "null", "[]", "{}", `{"kind":1}`, `{"kind":"set_node_interval_ms"}`, `{"kind":"set_node_interval_ms","value":"fast"}`} {
		if c, err := ParseControl([]byte(line)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q is %+v, %v", line, c, err)
		}
	}
}

func TestControls(t *testing.T) {
	text := `{"kind":"set_worker_interval_ms","value":100}` + "\n\n" + `{"kind":"set_node_interval_ms","value":200}` + "\n" + `{"ki`
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text))} {
		var got []string
		var last error
		for c, err := range Controls(r) {
			last = err
			if err == nil {
				got = append(got, fmt.Sprint(c.Kind, c.Value))
			}
		}
		if want := []string{"set_worker_interval_ms100", "set_node_interval_ms200"}; !cmp.Equal(got, want) {
			t.Fatalf("it is %v", got)
		}
		if !errors.Is(last, ErrCut) {
			t.Fatalf("half a line at the end: %v", last)
		}
	}
	for size, want := range map[int]error{MaxPending: nil, MaxPending + 1: ErrLimit} {
		for c, err := range Controls(strings.NewReader(strings.Repeat(" ", size) + "\n")) {
			if want == nil || !errors.Is(err, want) {
				t.Errorf("%d bytes: %v, %v", size, c, err)
			}
			want = nil
		}
		if want != nil {
			t.Errorf("%d bytes: no error", size)
		}
	}
	failed := errors.New("reset")
	for _, err := range Controls(iotest.ErrReader(failed)) {
		if !errors.Is(err, failed) {
			t.Error(err)
		}
	}
}
