package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/spool"
)

// screen is a terminal that a program draws on.
type screen struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File
	vt  vt10x.Terminal
	// more has a value after each part that the program has drawn.
	more chan struct{}
}

// topOn starts rt-spool top on a terminal of 80x24.
func topOn(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Args[0] = "rt-spool"
	cmd.Env = append(os.Environ(), append([]string{"TERM=xterm-256color", "TZ=UTC", "LANG=C.UTF-8", "LC_ALL="}, env...)...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: cmd, tty: tty, vt: vt10x.New(vt10x.WithSize(80, 24)), more: make(chan struct{}, 1)}
	t.Cleanup(func() { tty.Close() })
	go s.draw()
	return s
}

func (s *screen) draw() {
	defer close(s.more)
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		if _, err := s.vt.Write(buf[:n]); err != nil {
			return
		}
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *screen) text() string { return s.vt.String() }

// press types a key, and waits until all expressions match lines of the screen; one
// with a leading "no " must match none.
func (s *screen) press(key string, want ...string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(key); err != nil {
		s.t.Fatal(err)
	}
	s.until(want...)
}

func (s *screen) until(want ...string) {
	s.t.Helper()
	late := time.After(await.Limit)
	for {
		text := s.text()
		missing := ""
		for _, re := range want {
			re, not := strings.CutPrefix(re, "no ")
			if regexp.MustCompile(`(?m)`+re).MatchString(text) == not {
				missing = re
			}
		}
		if missing == "" {
			return
		}
		select {
		case _, ok := <-s.more:
			if !ok {
				s.t.Fatalf("the program ended before %q was on the screen:\n%s", missing, text)
			}
		case <-late:
			s.t.Fatalf("%q did not come onto the screen:\n%s", missing, text)
		}
	}
}

// same compares the screen with testdata/top/NAME.
func (s *screen) same(name string) {
	s.t.Helper()
	var lines []string
	for l := range strings.Lines(s.text()) {
		lines = append(lines, strings.TrimRight(l, " \n"))
	}
	want, err := os.ReadFile(filepath.Join("testdata/top", name))
	if diff := cmp.Diff(string(want), strings.Join(lines, "\n")+"\n"); diff != "" {
		s.t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
	}
}

// quit ends the program by a key.
func (s *screen) quit(key string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(key); err != nil {
		s.t.Fatal(err)
	}
	for range s.more { // to its end
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("quit: %v", err)
	}
}

// tracked spools n readings of a job and returns the writer of its tracker.
func tracked(t *testing.T, dir string, job uint64, n int64) (*spool.Writer, rt.Run) {
	t.Helper()
	run := rt.Run{
		Identity: rt.Identity{
			JobID: rt.Some(job), Node: "n1", Start: topStart,
			BootID: "b",
		},
		Allocation: rt.Allocation{User: "anna", AllocCPUs: rt.Some[uint64](2)},
		Meta:       rt.Metadata{JobName: "md"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	readings(t, w, 0, n)
	return w, run
}

var topStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func readings(t *testing.T, w *spool.Writer, from, to int64) {
	t.Helper()
	for i := from; i < to; i++ {
		s := snapshot(i, topStart)
		s.Reason = rt.ReasonTick
		s.CPUs = []rt.CPUReading{{CPU: 0, Times: rt.CPUTimes{User: uint64(50 * i), Idle: uint64(50 * i)}}, {CPU: 1, Times: rt.CPUTimes{Idle: uint64(100 * i)}}}
		for task := range uint64(2) {
			s.Steps = append(s.Steps, rt.StepReading{Step: "0", Task: rt.Some(task), CPUUsage: rt.Some(250_000 * uint64(i))})
			s.Procs = append(s.Procs, rt.ProcessReading{PID: 100 + task, Start: 1, Comm: []string{"gmx", "python3"}[task], Step: "0", UserTicks: rt.Some(25 * uint64(i)), SystemTicks: rt.Some[uint64](0)})
		}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func failed(run rt.Run, n int64) rt.Run {
	run.Apply(rt.Exit{Code: rt.Some[int64](7), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFailed, Time: topStart.Add(time.Duration(n-1) * time.Second)})
	return run
}

// Every key on a run that has ended, a chosen second, and another size.
func TestTopReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, run := tracked(t, dir, 12, 121)
	if err := w.End(failed(run, 121)); err != nil {
		t.Fatal(err)
	}
	s := topOn(t, nil, "top", "--replay", filepath.Join(dir, run.FileStem()+".db"))
	s.until(`^Job 12  md  anna  n1  failed \(7:0\)  0:02:00`, `\[1 job\]`, `^CPU +0.50 of 2 cores +25.0%`, `^Memory +32.0M of 128M +25.0%`, `0:02:00 of 0:02:00  12:02:00  reading 121 of 121  end`, `q quit`)
	s.press("t", `go to \(90`)
	s.press("83\r", `0:01:23 of 0:02:00  12:01:23  reading 84 of 121  PAUSED`, `total 41.50 s`)
	s.same("replay-83.80x24.txt")
	s.press("\x1b[D", `0:01:22 of .*reading 83 of`)
	s.press("\x1b[C", `0:01:23 of .*reading 84 of`)
	s.press("<", `0:00:23 of`)
	s.press(">", `0:01:23 of`)
	s.press("\x1b[1;2D", `0:00:23 of`) // shift+left
	s.press("\x1b[1;2C", `0:01:23 of`)
	s.press("\x1b[H", `0:00:00 of .*reading 1 of`, `^CPU +n/a of 2 cores`)
	s.press(" ", `0:00:02 of .*playing`) // it goes on by itself
	s.press(" ", `PAUSED`)
	s.press("\x1b[F", `0:02:00 of .*end`)
	s.press("\t", `\[2 steps\]`, `^> 0 +0 running +0.25`, `^  0 +1 running`)
	s.press("\x1b[B", `^> 0 +1`)
	s.press("\x1b[A", `^> 0 +0`)
	s.press("j", `^> 0 +1`)
	s.press("k", `^> 0 +0`)
	s.press("G", `^> 0 +1`)
	s.press("g", `^> 0 +0`)
	s.press("\x1b[6~", `^> 0 +1`) // page down
	s.press("\x1b[5~", `^> 0 +0`)
	s.press("\r", `\[3 processes\]`, `^filter "0"`)
	s.press("\x1b", `no ^filter`)
	s.press("/", `^filter \(enter`)
	s.press("pyx\x7f\r", `^filter "py"`, `python3`, `no gmx`)
	s.press("\x7f", `gmx`)
	s.press("s", `\*PID`, `(?s)python3.*gmx`)
	s.press("r", `(?s)gmx.*python3`)
	s.press("ss", `\*STEP`)
	s.press("S", `\*COMMAND`)
	s.press("4", `\[4 cores\]`, `^> +0 n/a +50.0`, `^ +1 n/a +0.0`)
	s.press("\x1b[Z", `\[3 processes\]`) // shift+tab
	s.press("?", `^rt-spool top: keys`, `ctrl\+l`)
	s.press("x", `\[3 processes\]`)
	s.press("\x0c", `\[3 processes\]`) // ctrl+l
	s.press("\x1b", `\[1 job\]`)
	s.vt.Resize(120, 40)
	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	s.until(`^Read +n/a`, `[=]{60}\| 0:02:00|[=]{50,}\|\] 0:02:00`)
	s.same("replay-end.120x40.txt")
	s.quit("q")
}

// Jobs of a node: one is opened while it runs, and ends then; another one starts.
func TestTopLive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, run := tracked(t, dir, 12, 10)
	s := topOn(t, []string{"NO_COLOR=1"}, "--config", "/dev/null", "--spool", dir, "top")
	s.until(`1 runs, 1 running`, `^> 12 +anna +running .* 0.50 +2 `)
	w2, run2 := tracked(t, dir, 13, 5)
	s.until(`2 runs, 2 running`, `^  13 +anna +running`)
	s.press("\r", `^Job 12  md  anna  n1  running`, `reading 10 of 10  newest`)
	readings(t, w, 10, 20)
	s.until(`reading 20 of 20  newest`)
	s.press(" ", `PAUSED`)
	readings(t, w, 20, 30)
	s.press(" ", `reading 30 of 30  newest`)
	if err := w.End(failed(run, 30)); err != nil {
		t.Fatal(err)
	}
	s.until(`^Job 12  md  anna  n1  failed \(7:0\)  0:00:29`, `reading 30 of 30  end`)
	s.press("\x1b", `2 runs, 1 running`, `^> 12 .* failed|^  12 .* failed`)
	if err := w2.End(failed(run2, 5)); err != nil {
		t.Fatal(err)
	}
	s.until(`2 runs, 0 running`)
	s.press("a", `2 runs, 0 running`)
	s.quit("\x03") // ctrl+c
}

// Without a usable terminal the error says what to do instead.
func TestTopDumb(t *testing.T) {
	t.Parallel()
	s := topOn(t, []string{"TERM=dumb"}, "--config", "/dev/null", "--spool", t.TempDir(), "top")
	for range s.more { // to its end
	}
	if got := strings.Join(strings.Fields(s.text()), " "); !strings.Contains(got, "(TERM=dumb): --once prints one screen as text") {
		t.Error(got)
	}
	if err := s.cmd.Wait(); s.cmd.ProcessState.ExitCode() != rtcli.ExitUsage {
		t.Error(err)
	}
}

// The workers of a program that broadcasts its frames, until it ends.
func TestTopConnect(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := topOn(t, nil, "top", "--connect", l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(i int) {
		line := fmt.Sprintf(`{"version":1,"ts":%d,"elapsed_seconds":%d,"topology":null,"workers":[`+
			`{"worker_id":0,"seq_no":%[2]d,"tasks_local_total":%d,"process_cpu_pct":nan,"edges_out":[{"to":1,"bytes":%d,"count":%[2]d}]},`+
			`{"worker_id":1,"seq_no":%[2]d,"tasks_local_total":0,"process_cpu_pct":50.5}],"nodes":[{"sentinel_worker_id":0,"hostname":"n1"}]}`+"\n",
			int64(1e12)+int64(1000*i), i, 100*i, i<<20)
		if _, err := io.WriteString(conn, line); err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	send(2)
	s.until(`^rt-spool top  127.0.0.1:\d+  2 workers on 1 nodes  0:00:02  without topology`, `^> +0 - +n/a +n/a +n/a +n/a +100 +n/a`, `^ +1 - +50.5`)
	s.press("\t", `\[2 nodes\]`, `^> n1`)
	s.press("4", `\[4 traffic\]`, `^> +0 +1 +2.0M +2 +1.0M +1`)
	s.press("5", `\[5 matrix\]`, `^> +0 +2.0M +· +2.0M`)
	s.press("\x1b[C", `^> +0 +2.0M +2.0M *$`)
	send(3)
	s.until(`0:00:03`, `^> +0 +3.0M +3.0M *$`)
	s.press(" ", `PAUSED`)
	s.press(" ", `no PAUSED`)
	if err := errors.Join(conn.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	s.until(`trying again`, `^> +0 +3.0M`)
	s.quit("q")
}

// Close to its limit a job is red and has a mark; with NO_COLOR only the mark.
func TestTopColour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for job, memory := range map[uint64]uint64{1: 10 << 20, 2: 125 << 20, 3: 126 << 20} {
		w, run := tracked(t, dir, job, 2)
		s := snapshot(2, topStart)
		s.Job.MemCurrent, s.Job.MemPeak = rt.Some(memory), rt.Some(memory)
		if err := errors.Join(w.Put(&s), w.Flush()); err != nil {
			t.Fatal(err)
		}
		if job == 3 { // an ended job is not marked
			if err := w.End(failed(run, 3)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		defer w.Close()
	}
	for env, want := range map[string]bool{"NO_COLOR=1": false, "NO_COLOR=": true} {
		s := topOn(t, []string{env, "CLICOLOR_FORCE="}, "--config", "/dev/null", "--spool", dir, "top")
		s.until(`^> 1 `, `^! 2 .* 125M +128M`)
		s.press("a", `^> 1 `, `^! 2 .* 125M +128M`, `^  3 .* 126M +128M`)
		red := map[string]bool{} // by job
		for y := range 24 {
			for x := range 80 {
				if s.vt.Cell(x, y).FG == vt10x.Red {
					red[string(s.vt.Cell(2, y).Char)] = true
				}
			}
		}
		if red["2"] != want || red["1"] || red["3"] {
			t.Errorf("%s: red jobs: %v", env, red)
		}
		s.quit("q")
	}
}
