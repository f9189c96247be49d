package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// The bodies of fake trackers: shell scripts in which %s is the test's directory.
const (
	// forever waits for signals. The shell unblocks them when its first command has ended. Its child reads a pipe
	// into which nothing is written, and ends with the shell.
	forever = `cat /dev/null
exec 4<>%[1]s/never
cat <%[1]s/never 4>&- &
while :; do wait; done`
	// fakeGood records its run, is ready, and copies the exit at SIGUSR1.
	fakeGood = `trap 'cp %[1]s/state/*.exit %[1]s/seen.exit; exit 0' USR1
cat >%[1]s/run.json
echo $$ >>%[1]s/started
echo "ready" >&3
exec 3>&-
` + forever
	// fakeRecorder records how it was started.
	fakeRecorder = `cat >%[1]s/run.json
echo "$@" >%[1]s/args
env >%[1]s/env
pwd >%[1]s/cwd
cat /proc/self/status >%[1]s/status
cat /proc/$$/stat >%[1]s/stat
echo "ready" >&3
kill -STOP $$`
	fakeStubborn = `trap '' USR1
echo "ready" >&3
exec 3>&-
` + forever
	fakeHangs = forever
	fakeError = `echo "started" >>%[1]s/started
echo "error: cannot open the spool %[1]s/spool: no such directory; make it" >&3
exit 1`
	fakeDies = `exit 9`
)

// newHook makes a hook around a fake tracker.
func newHook(t *testing.T, body string) (*Hook, string) {
	t.Helper()
	dir := t.TempDir()
	h := &Hook{
		Tracker: filepath.Join(dir, "rt-tracker"), SpoolDir: "/var/spool/rt", State: State{filepath.Join(dir, "state")},
		ReadyTimeout: 20 * time.Second, StopTimeout: 20 * time.Second,
		Failures: 3, Reset: time.Hour, ProcRoot: "/proc",
		Describe: func(run *rt.Run) []byte {
			text, err := json.Marshal(run)
			if err != nil {
				t.Error(err)
			}
			return text
		},
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "never"), 0o600); err != nil {
		t.Fatal(err)
	}
	setTracker(t, h, body)
	t.Cleanup(func() { killTrackers(t, h) })
	return h, dir
}

func setTracker(t *testing.T, h *Hook, body string) {
	t.Helper()
	if strings.Contains(body, "%[1]s") {
		body = fmt.Sprintf(body, filepath.Dir(h.Tracker))
	}
	// A file that is open for writing anywhere cannot be executed: replace, do not rewrite.
	if err := os.RemoveAll(h.Tracker); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Tracker, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// killTrackers kills the sessions of a test's state files.
func killTrackers(t *testing.T, h *Hook) {
	files, err := filepath.Glob(filepath.Join(h.State.Dir, "*.json"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range files {
		var n StateFile
		if readJSON(path, &n) == nil {
			killTracker(t, n)
		}
	}
}

// killTracker kills the session of a state file's tracker.
func killTracker(t *testing.T, n StateFile) {
	if n.PID > 1 && procfile.Alive("/proc", n.PID, n.PIDStart) {
		if err := syscall.Kill(-n.PID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

// began is when tracking begins.
var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// jobRun is the run of an attempt of a job on n1; tracking begins that much later.
func jobRun(job uint64, attempt uint64, later time.Duration) rt.Run {
	return rt.Run{
		Identity: rt.Identity{
			Cluster: "lab", JobID: rt.Some(job), Node: "n1", Attempt: attempt,
			Start: began.Add(later),
		},
		Allocation: rt.Allocation{
			GID:       rt.Some[uint64](1001),
			Scheduler: "slurm",
		},
		Ending: rt.Ending{State: rt.StateRunning},
	}
}

var (
	prolog12, epilog12 = jobRun(12, 0, 0), jobRun(12, 1, 0) // Slurm counts up before the Epilog
	exit7              = rt.Exit{Code: rt.Some[int64](7), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFailed, Source: "epilog"}
)

// stem12 is the file stem of prolog12.
var stem12 = fmt.Sprintf("job-12-n1-%d", began.UnixMilli())

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stateFiles are the names in the state directory.
func stateFiles(t *testing.T, h *Hook) []string {
	t.Helper()
	entries, err := os.ReadDir(h.State.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestPrologEpilog(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	if err := h.Prolog(prolog12); err != nil {
		t.Fatal(err)
	}
	var run rt.Run
	if err := json.Unmarshal([]byte(read(t, dir, "run.json")), &run); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(run, prolog12) {
		t.Errorf("the tracker got the run %+v", run)
	}
	state, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if state.RunID != run.FileStem() || state.Spool != "/var/spool/rt/"+run.FileStem()+".db" || !state.Started.Equal(began) || !procfile.Alive("/proc", state.PID, state.PIDStart) {
		t.Errorf("state file %+v", state)
	}
	if info, err := os.Stat(h.State.path(12, "n1", "json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the state file: %v, %v", info.Mode(), err)
	}
	// A second Prolog starts nothing.
	if err := h.Prolog(prolog12); !errors.Is(err, ErrTracked) {
		t.Errorf("second Prolog: %v", err)
	}
	if got := strings.Count(read(t, dir, "started"), "\n"); got != 1 {
		t.Errorf("%d trackers were started, want 1", got)
	}
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Fatal(err)
	}
	if procfile.Alive("/proc", state.PID, state.PIDStart) {
		t.Error("the tracker is alive after the Epilog")
	}
	var exit rt.Exit
	if err := json.Unmarshal([]byte(read(t, dir, "seen.exit")), &exit); err != nil {
		t.Fatal(err)
	}
	if exit.Code != rt.Some[int64](7) || exit.Outcome != rt.OutcomeFailed || exit.Source != "epilog" {
		t.Errorf("the tracker saw the exit %+v", exit)
	}
	if left := stateFiles(t, h); !slices.Equal(left, []string{"node"}) {
		t.Errorf("left in the state directory: %q, want only the trackers' directory", left)
	}
	if info, err := os.Stat(filepath.Join(h.State.Dir, "node")); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the trackers' directory: %v, %v", info, err)
	}
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Errorf("second Epilog: %v", err)
	}
}

func TestEpilogWithoutProlog(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Error(err)
	}
	if left := stateFiles(t, h); len(left) != 0 {
		t.Errorf("left in the state directory: %q", left)
	}
}

// A failed preparation counts as a failure of the Prolog.
func TestPrepareFails(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	unfit := errors.New("not from here")
	h.Prepare = func() error { return unfit }
	if err := h.Prolog(prolog12); !errors.Is(err, unfit) {
		t.Error(err)
	}
	if st := h.breaker("n1").read(); st.Failures != 1 {
		t.Errorf("the file has %+v", st)
	}
}

// The tracker of an earlier attempt, which had no Epilog, gets SIGUSR1, and the new attempt
// gets another tracker.
func TestNextAttempt(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	if err := h.Prolog(prolog12); err != nil {
		t.Fatal(err)
	}
	old, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Prolog(jobRun(12, 1, time.Minute)); err != nil {
		t.Fatal(err)
	}
	p, err := findProcess("/proc", old.PID, old.PIDStart)
	if err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
		t.Error("the old attempt's tracker is alive")
	}
	now, err := h.State.ReadStateFile(12, "n1")
	if err != nil || now.PID == old.PID || now.Attempt != 1 {
		t.Errorf("state file %+v, %v", now, err)
	}
	if got := strings.Count(read(t, dir, "started"), "\n"); got != 2 {
		t.Errorf("%d trackers were started, want 2", got)
	}
	if err := h.Epilog(jobRun(12, 2, 0), exit7); err != nil {
		t.Error(err)
	}
}

// Prologs of one job at the same time start one tracker.
func TestPrologsAtOnce(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	var group sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		group.Go(func() { results <- h.Prolog(prolog12) })
	}
	group.Wait()
	close(results)
	started := 0
	for err := range results {
		if err == nil {
			started++
		} else if !errors.Is(err, ErrTracked) {
			t.Error(err)
		}
	}
	if lines := strings.Count(read(t, dir, "started"), "\n"); started != 1 || lines != 1 {
		t.Errorf("%d Prologs succeeded and %d trackers were started, want 1 and 1", started, lines)
	}
}

func TestStateNames(t *testing.T) {
	s := State{"/run/rt"}
	for node, want := range map[string]string{
		"n1": "/run/rt/5@n1.json", "../../etc/x": "/run/rt/5@.._.._etc_x.json", "a b\x00": "/run/rt/5@a_b_.json", "": "/run/rt/5@.json",
	} {
		if got := s.path(5, node, "json"); got != want {
			t.Errorf("node %q: %q, want %q", node, got, want)
		}
	}
}
