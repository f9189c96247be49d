package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/spool"
)

// waiting is a tracked command that waits for the end of its input.
type waiting struct {
	*exec.Cmd
	in     io.Closer
	stderr bytes.Buffer
}

func startWaiting(t *testing.T, args ...string) *waiting {
	t.Helper()
	w := &waiting{Cmd: exec.Command("resource-tracker", append(args, "--", "cat")...)}
	w.Env = append(os.Environ(), "SLURM_JOB_ID=", "GORACE="+noRaceWait)
	w.Stderr = &w.stderr
	in, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.in = in
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.in.Close(); _ = w.Process.Kill() })
	return w
}

// end lets the command end, and returns what was said.
func (w *waiting) end(t *testing.T) string {
	t.Helper()
	_ = w.in.Close()
	if err := w.Wait(); err != nil {
		t.Errorf("the command's status: %v\n%s", err, &w.stderr)
	}
	return w.stderr.String()
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "s"), filepath.Join(dir, "samples")
	w := startWaiting(t, "-o", out, "--listen", "unix:"+path)
	await.File(t, out) // the tracker listens before it opens the file
	conn := dial(t, path)
	lines := gempba.NewDecoder(conn)
	var e *gempba.Envelope
	for range 3 {
		var err error
		if e, err = lines.Next(); err != nil {
			t.Fatal(err)
		}
	}
	host, _ := os.Hostname()
	if len(e.Workers) != 1 || e.Topology.Identities[0].Hostname != host || len(e.Nodes) != 1 || e.Nodes[0].MemTotalBytes.Or(0) == 0 {
		t.Errorf("seen: %+v", e)
	}
	pid := e.Topology.Identities[0].PID.Or(0)
	if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) != "cat\n" {
		t.Errorf("worker 0 is process %d, %q", pid, name)
	}
	bad := dial(t, path)
	if _, err := bad.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, bad) // until it is dropped
	if _, err := lines.Next(); err != nil {
		t.Errorf("another client is disturbed: %v", err)
	}
	said := w.end(t)
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, "is dropped: a control line") {
		t.Errorf("said:\n%s", said)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
}

// A tracker without --listen has no sockets.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "samples")
	w := startWaiting(t, "-o", out)
	await.Change(t, dir, "a sample", func() bool { return hasLines(out, 1) })
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", w.Process.Pid))
	if err != nil || len(descriptors) < 4 {
		t.Fatalf("descriptors %v, %v", descriptors, err)
	}
	for _, d := range descriptors {
		if to, _ := os.Readlink(d); strings.HasPrefix(to, "socket:") {
			t.Errorf("%s is a socket", d)
		}
	}
	w.end(t)
}

// Whatever is wrong with the address, the command runs.
func TestListenWarns(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		":0": "any host that reaches this machine can read", taken.Addr().String(): "--listen is not available: listen", "unix:/proc/nowhere": "--listen is not available: listen",
	} {
		if said := startWaiting(t, "-q", "--listen", address).end(t); !strings.Contains(said, "warning: "+want) {
			t.Errorf("--listen %s: said %q", address, said)
		}
	}
}

// gempbaProgram sends each of the texts to one who connects, one after the other.
func gempbaProgram(t *testing.T, texts ...string) (config string, sent chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	sent = make(chan struct{})
	go func() {
		defer close(sent)
		for _, text := range texts {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn) // until we were read
			_ = conn.Close()
		}
	}()
	config = filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[gempba]\nconnect = %q\n", l.Addr()), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, sent
}

func gempbaLine(ts int, topology string, tasks int) string {
	return fmt.Sprintf(`{"version":1,"ts":%d,"elapsed_seconds":1,"topology":%s,"workers":[{"worker_id":0,"tasks_local_total":%d,"process_cpu_pct":nan,"edges_out":[]}],"nodes":[]}`+"\n", ts, topology, tasks)
}

func TestFramesOfGemPBA(t *testing.T) {
	t.Parallel()
	const topology = `{"nodes":[],"identities":[{"worker_id":0,"hostname":"n1","pid":1,"primary_socket":0,"allowed_cpu_ids":[0]}]}`
	config, sent := gempbaProgram(t,
		gempbaLine(1, topology, 10)+gempbaLine(2, topology, 20)+gempbaLine(3, topology, 30),
		gempbaLine(4, topology, 5)+"garbage\n", `{"ts":1,"half`)
	dir := t.TempDir()
	w := startWaiting(t, "-c", config, "--spool", dir, "-i", "3600")
	<-sent
	if said := w.end(t); strings.Count(said, "\n") != 1 || !strings.Contains(said, "is closed: line 2 of the telemetry") {
		t.Errorf("said:\n%s", said)
	}
	entries, err := spool.List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	r, err := spool.Open(entries[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for rec, err := range r.Records(t.Context(), "gempba") {
		if err != nil {
			t.Fatal(err)
		}
		e, err := gempba.Parse(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.TS, e.Topology != nil, e.Workers[0].TasksLocalTotal.Or(0)))
	}
	// the first of the interval, and the last of each of the two that came
	if want := "1 true 10, 3 false 30, 4 false 5"; strings.Join(got, ", ") != want {
		t.Errorf("kept %q, want %s", got, want)
	}
}

// Whatever a program sends, it is left with one line, and the command goes on.
func TestBadGemPBAPrograms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"garbage\n": "line 1 of the telemetry: ", `{"ts":1,"half`: "line 1 of the telemetry: ", strings.Repeat("x", 10<<20): "has more than 8388608 bytes",
		gempbaLine(1, "null", 1) + "[]\n": "line 2 of the telemetry: ", `{"version":2,"ts":1}` + "\n": "version 2",
	} {
		config, sent := gempbaProgram(t, text)
		w := startWaiting(t, "-q", "-c", config, "--spool", t.TempDir())
		<-sent
		if said := w.end(t); strings.Count(said, "\n") != 1 || !strings.Contains(said, want) {
			t.Errorf("of %.20q it said:\n%s", text, said)
		}
	}
}

func TestFramesNeedASpool(t *testing.T) {
	config, _ := gempbaProgram(t)
	for _, args := range [][]string{{"-q"}, {"-f", "csv"}} {
		if said := startWaiting(t, append(args, "-c", config)...).end(t); !strings.Contains(said, "and there is neither") {
			t.Errorf("%v: said %q", args, said)
		}
	}
}

// A sample has what the program has sent in its interval, and the next one nothing.
func TestFramesInSamples(t *testing.T) {
	t.Parallel()
	config, sent := gempbaProgram(t, gempbaLine(1, "null", 10)+gempbaLine(2, "null", 20))
	dir := t.TempDir()
	out := filepath.Join(dir, "samples")
	w := startWaiting(t, "-c", config, "-o", out, "-i", "1")
	<-sent
	var samples []string
	await.Change(t, dir, "a sample after the sample of the second line", func() bool {
		b, _ := os.ReadFile(out)
		samples = strings.SplitAfter(string(b), "\n")
		has := slices.IndexFunc(samples, func(s string) bool { return strings.Contains(s, `"ts":2,`) })
		return has >= 0 && has <= len(samples)-3
	})
	if said := w.end(t); said != "" {
		t.Errorf("said %q", said)
	}
	sums := []int64{}
	for _, line := range samples[:len(samples)-1] {
		var sample struct {
			GemPBA *gempba.Totals `json:"gempba"`
		}
		if err := json.Unmarshal([]byte(line), &sample); err != nil {
			t.Fatal(err, line)
		}
		if sample.GemPBA != nil {
			sums = append(sums, sample.GemPBA.TS, int64(sample.GemPBA.TasksLocalTotal.Or(0)))
		}
	}
	if n := len(sums); n < 2 || n > 4 || !slices.Equal(sums[n-2:], []int64{2, 20}) { // a sample may come between the lines
		t.Errorf("samples have %v of:\n%s", sums, strings.Join(samples, ""))
	}
}
