package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
)

func TestPrologFaults(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, h *Hook)
		want    []string // all in the error
		isThere bool     // the tracker may still run, so the Epilog must find it
	}{
		{"missing", func(t *testing.T, h *Hook) { h.Tracker += "-missing" }, []string{"rt-tracker-missing", "no such file"}, false},
		{"not executable", func(t *testing.T, h *Hook) {
			if err := os.Chmod(h.Tracker, 0o644); err != nil {
				t.Fatal(err)
			}
		}, []string{"rt-tracker", "permission denied"}, false},
		{"reports an error", func(t *testing.T, h *Hook) { setTracker(t, h, fakeError) }, []string{"rt-tracker: cannot open the spool", "no such directory; make it"}, false},
		{"dies", func(t *testing.T, h *Hook) { setTracker(t, h, fakeDies) }, []string{"rt-tracker", "ended without a message, with status 9"}, false},
		{"hangs", func(t *testing.T, h *Hook) {
			setTracker(t, h, fakeHangs)
			h.ReadyTimeout = time.Second // long enough for it to read its run on a busy machine
		}, []string{"rt-tracker (process ", "was not ready within 1s"}, true},
		{"state directory cannot be made", func(t *testing.T, h *Hook) {
			h.State.Dir = filepath.Join(h.Tracker, "state")
		}, []string{"tracker.state_dir", "not a directory"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newHook(t, fakeGood)
			tt.prepare(t, h)
			err := h.Prolog(prolog12)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			_, err = h.State.ReadStateFile(12, "n1")
			if isThere := err == nil; isThere != tt.isThere {
				t.Errorf("a state file is left: %v, want %v", isThere, tt.isThere)
			}
			if !tt.isThere {
				if err := h.Epilog(epilog12, exit7); err != nil {
					t.Errorf("the Epilog repeats the fault: %v", err)
				}
			}
		})
	}
}

// On a busy node exec alone can take all of the Prolog's time. The tracker gets its run
// even then. It also gets a run that is larger than a pipe, if there is time.
func TestLateTrackerGetsItsRun(t *testing.T) {
	for _, tt := range []struct {
		name     string
		comment  int
		deadline time.Time
	}{{"in time", 0, time.Now().Add(time.Minute)}, {"late", 0, began}, {"very long", 1 << 20, time.Now().Add(time.Minute)}} {
		t.Run(tt.name, func(t *testing.T) {
			h, dir := newHook(t, fakeGood)
			want := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12)}, Allocation: rt.Allocation{Comment: strings.Repeat("x", tt.comment)}}
			tracker, err := h.launch(0)
			if err != nil {
				t.Fatal(err)
			}
			defer tracker.feed.Close()
			if err := tracker.describe(h.Describe(&want), tt.deadline); err != nil {
				t.Fatal(err)
			}
			tracker.feed.Close()
			defer killTracker(t, StateFile{PID: tracker.pid, PIDStart: tracker.start})
			if running, err := tracker.waitReady(time.Now().Add(time.Minute)); !running || err != nil {
				t.Fatalf("running %v, %v", running, err)
			}
			var got rt.Run
			if err := json.Unmarshal([]byte(read(t, dir, "run.json")), &got); err != nil || got.JobID != want.JobID || got.Comment != want.Comment {
				t.Errorf("the tracker got job %v, comment of %d bytes, %v", got.JobID, len(got.Comment), err)
			}
		})
	}
}

func TestBreaker(t *testing.T) {
	h, dir := newHook(t, fakeError)
	starts := func() int { return strings.Count(read(t, dir, "started"), "\n") }
	for i := range 3 {
		err := h.Prolog(jobRun(uint64(20+i), 0, 0))
		if err == nil {
			t.Fatal("no error")
		}
		if opened := strings.Contains(err.Error(), "failure 3 in a row"); opened != (i == 2) {
			t.Errorf("failure %d: %v", i+1, err)
		}
	}
	// Open: no start and no message.
	if err := h.Prolog(jobRun(30, 0, 59*time.Minute)); err != nil || starts() != 3 {
		t.Errorf("an open breaker: %v, %d starts", err, starts())
	}
	// After the time one Prolog tries; its failure opens the breaker again.
	if err := h.Prolog(jobRun(31, 0, time.Hour)); err == nil || starts() != 4 {
		t.Errorf("after the time: %v, %d starts", err, starts())
	}
	if err := h.Prolog(jobRun(32, 0, 61*time.Minute)); err != nil || starts() != 4 {
		t.Errorf("open again: %v, %d starts", err, starts())
	}
	// A success closes the breaker: the next failure is the first.
	setTracker(t, h, fakeGood)
	if err := h.Prolog(jobRun(33, 0, 3*time.Hour)); err != nil {
		t.Error(err)
	}
	setTracker(t, h, fakeError)
	if err := h.Prolog(jobRun(34, 0, 3*time.Hour)); err == nil || strings.Contains(err.Error(), "in a row") {
		t.Errorf("the first failure after a success: %v", err)
	}
	// A clock that was set back does not keep it open.
	h.Failures = 2
	if err := h.Prolog(jobRun(35, 0, 3*time.Hour)); err == nil || !strings.Contains(err.Error(), "failure 2 in a row") {
		t.Errorf("failure 2: %v", err)
	}
	if err := h.Prolog(jobRun(36, 0, 0)); err == nil {
		t.Error("open before it was opened")
	}
}

// A Prolog that hangs counts as a failure when its caller no longer waits. Its own result
// does not count then.
func TestBreakerCountsHangs(t *testing.T) {
	first, _ := newHook(t, fakeGood)
	release := make(chan struct{})
	results := make(chan error, first.Failures)
	hang := func(job int) *Hook {
		h := &Hook{Tracker: first.Tracker, State: first.State, ReadyTimeout: 20 * time.Second, Failures: 3, Reset: time.Hour, ProcRoot: "/proc", Describe: first.Describe}
		entered := make(chan struct{})
		h.OpenLog = func() (*os.File, error) { // in the midst of a launch
			close(entered)
			<-release
			return nil, os.ErrNotExist
		}
		go func() { results <- h.Prolog(jobRun(uint64(job), 0, 0)) }()
		<-entered
		return h
	}
	// All are running at once, which is not a failure.
	hooks := []*Hook{hang(20), hang(21), hang(22)}
	if st := first.breaker("n1").read(); st.Failures != 0 || len(entries(t, first)) != 3 {
		t.Errorf("the file while three hang: %+v, entries %q", st, entries(t, first))
	}
	for i, h := range hooks {
		err := h.GaveUp(errors.New("gave up"))
		if opened := strings.Contains(err.Error(), "failure 3 in a row"); opened != (i == 2) || !strings.HasPrefix(err.Error(), "gave up") {
			t.Errorf("failure %d: %v", i+1, err)
		}
	}
	if err := first.Prolog(jobRun(23, 0, 0)); err != nil {
		t.Errorf("an open breaker: %v", err)
	}
	close(release)
	for range hooks {
		if err := <-results; err != nil {
			t.Errorf("a Prolog that continued: %v", err)
		}
	}
	if st := first.breaker("n1").read(); st.Failures != 3 || len(entries(t, first)) != 0 {
		t.Errorf("the file has %+v, entries %q", st, entries(t, first))
	}
	if err := new(Hook).GaveUp(os.ErrClosed); err != os.ErrClosed {
		t.Errorf("without an attempt: %v", err)
	}
}

// entries are the names of the breaker's entries.
func entries(t *testing.T, h *Hook) (names []string) {
	t.Helper()
	list, err := os.ReadDir(h.breaker("n1").entries)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// enterKilled adds entries of Prologs that were killed: no process has the number.
func enterKilled(t *testing.T, h *Hook, number int) {
	t.Helper()
	dir := h.breaker("n1").entries
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range number {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-1-20", 1<<30+i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The next Prolog counts a killed Prolog as a failure.
func TestBreakerCountsKilledPrologs(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	b := h.breaker("n1")
	enterKilled(t, h, 2)
	a, err := b.begin(21, began)
	if st := b.read(); a == nil || err != nil || st.Failures != 2 || len(entries(t, h)) != 1 {
		t.Fatalf("two were killed: %+v, %v, entries %q", st, err, entries(t, h))
	}
	if err := a.withdraw(); err != nil || b.read().Failures != 2 || len(entries(t, h)) != 0 {
		t.Errorf("a Prolog that started nothing: %+v, %v", b.read(), err)
	}
	enterKilled(t, h, 1)
	err = h.Prolog(jobRun(22, 0, 0))
	if err == nil || !strings.Contains(err.Error(), "was killed") || !strings.Contains(err.Error(), "failure 3 in a row") {
		t.Errorf("the Prolog that counts the third: %v", err)
	}
	if err := h.Prolog(jobRun(23, 0, 0)); err != nil {
		t.Errorf("an open breaker: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("a tracker was started")
	}
	// The cause may have been load, so one Prolog tries again after some seconds.
	if a, err := b.begin(21, began.Add(hangPause)); a == nil || err != nil {
		t.Errorf("no Prolog tries again: %v", err)
	}
	if a, err := b.begin(21, began.Add(hangPause)); a != nil || err != nil {
		t.Errorf("a second one tries at the same time: %v", err)
	}
}

// While the cause of a hang lasts, the pause doubles up to the time after other failures, because
// each attempt delays a job by seconds.
func TestPauseAfterHangsDoubles(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	h.Reset = time.Hour
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	b := h.breaker("n1")
	now := began
	for range h.Failures - 1 {
		if _, err := b.count(1, errRunning, now, isHang); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600} {
		want *= time.Second
		if _, err := b.count(1, errRunning, now, isHang); err != nil {
			t.Fatal(err)
		}
		if got := b.read().Until.Sub(now); got != want {
			t.Errorf("failure %d: a pause of %s, want %s", h.Failures+i, got, want)
		}
		now = now.Add(want)
		a, err := b.begin(21, now)
		if a == nil || err != nil {
			t.Fatalf("failure %d: no Prolog tries after the pause: %v", h.Failures+i, err)
		}
		if err := a.withdraw(); err != nil {
			t.Fatal(err)
		}
	}
}

// A Prolog that succeeds does not wait for the lock of the breaker's file: hundreds of them
// may run at once.
func TestSuccessNeedsNoLock(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	held, err := lockPath(h.breaker("n1").path+".lock", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Prolog(prolog12); err != nil {
		t.Error(err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Error(err)
	}
}

// Prologs with late trackers do not open the breaker, nor do Prologs that wait for another hook of
// the job: the trackers track their jobs.
func TestLateIsNotFailed(t *testing.T) {
	h, dir := newHook(t, ": <%[1]s/go\n"+fakeGood) // it waits until the pipe is open for writing
	goOn := filepath.Join(dir, "go")
	if err := syscall.Mkfifo(goOn, 0o600); err != nil {
		t.Fatal(err)
	}
	h.SpoolDir = t.TempDir()
	h.ReadyTimeout = 20 * time.Millisecond
	for job := range uint64(2 * h.Failures) {
		if err := h.Prolog(jobRun(20+job, 0, 0)); !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "was not ready within 20ms; it keeps running") {
			t.Errorf("job %d: %v", 20+job, err)
		}
	}
	held, err := h.State.lock(30, "n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * h.Failures {
		if err := h.Prolog(jobRun(30, 0, 0)); !errors.Is(err, errBusy) {
			t.Errorf("a job that another hook has locked: %v", err)
		}
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if st := h.breaker("n1").read(); st.Failures != 0 || len(entries(t, h)) != 0 {
		t.Errorf("the breaker has %+v", st)
	}
	opened, err := os.OpenFile(goOn, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for job := range uint64(2 * h.Failures) {
		note, err := h.State.ReadStateFile(20+job, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(note.Spool, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(jobRun(20+job, 1, 0), exit7); err != nil {
			t.Errorf("the Epilog of job %d: %v", 20+job, err)
		}
	}
	if left := stateFiles(t, h); !slices.Equal(left, []string{"node"}) {
		t.Errorf("left in the state directory: %q", left)
	}
}

// A late tracker that ends before it has tracked its job is a failure, which the Epilog counts. A
// late tracker that works closes the breaker.
func TestLateTrackerIsJudged(t *testing.T) {
	h, _ := newHook(t, fakeHangs)
	h.SpoolDir = t.TempDir()
	h.ReadyTimeout = 20 * time.Millisecond
	late := func(job uint64) StateFile {
		t.Helper()
		if err := h.Prolog(jobRun(job, 0, 0)); !errors.Is(err, ErrLate) {
			t.Fatalf("job %d: %v", job, err)
		}
		state, err := h.State.ReadStateFile(job, "n1")
		if err != nil || !state.Late {
			t.Fatalf("state file %+v, %v", state, err)
		}
		return state
	}
	for job := range uint64(2) {
		state := late(20 + job)
		killTracker(t, state)
		if p, err := findProcess("/proc", state.PID, state.PIDStart); err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
			t.Fatal("SIGKILL did not end it")
		}
		if err := h.Epilog(jobRun(20+job, 1, 0), exit7); !errors.Is(err, errGone) {
			t.Errorf("the Epilog of job %d: %v", 20+job, err)
		}
		if st := h.breaker("n1").read(); st.Failures != int(job)+1 {
			t.Errorf("after job %d: %+v", 20+job, st)
		}
	}
	late(22)
	if err := h.Epilog(jobRun(22, 1, 0), exit7); err == nil || !strings.Contains(err.Error(), "has ended without a run") || !strings.Contains(err.Error(), "failure 3 in a row") {
		t.Errorf("after a tracker that ended without a run: %v", err)
	}
	if err := h.breaker("n1").closeOnTrial(); err != nil {
		t.Fatal(err)
	}
	state := late(23)
	if err := os.WriteFile(state.Spool, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Epilog(jobRun(23, 1, 0), exit7); err != nil {
		t.Error(err)
	}
	if st := h.breaker("n1").read(); st.Failures != 0 {
		t.Errorf("after a tracker that worked: %+v", st)
	}
}

// A late tracker without a run that keeps running after its Epilog may hang, so it is a failure. If
// many trackers began at once, this is no failure.
func TestLateTrackerKeepsRunning(t *testing.T) {
	for _, tt := range []struct {
		name               string
		begun, isOneOfMany bool
		failures           int
	}{{"without a run", false, false, 1}, {"with a run", true, false, 0}, {"one of many", false, true, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			h, dir := newHook(t, "trap '' USR1; : >%[1]s/started; "+fakeHangs)
			h.SpoolDir, h.ReadyTimeout, h.StopTimeout = t.TempDir(), 20*time.Millisecond, 20*time.Millisecond
			if err := h.Prolog(prolog12); !errors.Is(err, ErrLate) {
				t.Fatal(err)
			}
			note, err := h.State.ReadStateFile(12, "n1")
			if err != nil {
				t.Fatal(err)
			}
			for !exists(filepath.Join(dir, "started")) {
				runtime.Gosched()
			}
			note.Delayed = tt.isOneOfMany
			if err := h.State.writeStateFile(12, "n1", note); err != nil {
				t.Fatal(err)
			}
			if tt.begun {
				if err := os.WriteFile(note.Spool, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Epilog(epilog12, exit7); !errors.Is(err, errRunning) {
				t.Errorf("Epilog: %v", err)
			}
			if st := h.breaker("n1").read(); st.Failures != tt.failures {
				t.Errorf("the breaker has %+v", st)
			}
		})
	}
}

// If the Prolog that tries has a late tracker, the next Prologs try too.
func TestLateTryHalfClosesTheBreaker(t *testing.T) {
	h, _ := newHook(t, fakeHangs)
	h.ReadyTimeout = 20 * time.Millisecond
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	b := h.breaker("n1")
	if err := b.update(func(st *breakerState) { *st = breakerState{Failures: 7, Until: time.Now().Add(-time.Second)} }); err != nil {
		t.Fatal(err)
	}
	for job := range uint64(2) {
		if err := h.Prolog(jobRun(20+job, 0, 0)); !errors.Is(err, ErrLate) {
			t.Errorf("job %d: %v", 20+job, err)
		}
	}
	if st := b.read(); st.Failures != h.Failures-1 || !st.Until.IsZero() {
		t.Errorf("the breaker has %+v", st)
	}
}

// A Prolog counts as late if its caller gives up after the start of the tracker. The tracker has
// its state file and its run.
func TestGaveUpAfterTheStart(t *testing.T) {
	h, _ := newHook(t, fakeHangs)
	result := make(chan error)
	go func() { result <- h.Prolog(prolog12) }()
	for a := h.attempt.Load(); a == nil || !a.forked.Load(); a = h.attempt.Load() {
		runtime.Gosched()
	}
	if err := h.GaveUp(errors.New("gave up")); !errors.Is(err, ErrLate) {
		t.Errorf("after the start: %v", err)
	}
	if st := h.breaker("n1").read(); st.Failures != 0 || len(entries(t, h)) != 0 {
		t.Errorf("the breaker has %+v", st)
	}
	state, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatalf("the Epilog cannot find the tracker: %v", err)
	}
	killTracker(t, state)
	if err := <-result; err == nil {
		t.Error("the Prolog does not report that its tracker ended")
	}
}

// If many Prologs run at once, the trackers begin one after the other, and no Prolog waits.
func TestSpread(t *testing.T) {
	if s := newSpread(32, 2); s != (spread{}) {
		t.Errorf("few Prologs wait: %+v", s)
	}
	for range 1000 {
		s := newSpread(500, 2)
		if s.fork < 0 || s.fork >= 1500*time.Millisecond || s.begin < 1500*time.Millisecond || s.begin >= 5250*time.Millisecond {
			t.Fatalf("500 Prologs on two cores: %+v", s)
		}
	}
	h, dir := newHook(t, `echo "$@" >%[1]s/args; `+fakeGood)
	h.ConfigFile = "/etc/rt/site.toml"
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	a, err := h.breaker("n1").begin(12, began)
	if err != nil {
		t.Fatal(err)
	}
	run := prolog12
	tr, _, err := h.start(&run, a, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if running, err := tr.waitReady(time.Now().Add(time.Hour)); !running || !errors.Is(err, ErrLate) {
		t.Errorf("running %v, %v", running, err)
	}
	for !exists(filepath.Join(dir, "started")) {
		runtime.Gosched()
	}
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Error(err)
	}
	if got := read(t, dir, "args"); got != "--config /etc/rt/site.toml --delay 1h0m0s\n" {
		t.Errorf("arguments %q", got)
	}
}

func TestEpilogFaults(t *testing.T) {
	t.Run("tracker killed", func(t *testing.T) {
		h, state := startTracker12(t, fakeGood)
		if err := os.WriteFile(state.lock(), nil, 0o600); err != nil { // its run is not closed
			t.Fatal(err)
		}
		if err := syscall.Kill(-state.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if p, err := findProcess("/proc", state.PID, state.PIDStart); err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
			t.Fatal("SIGKILL did not end it")
		}
		err := h.Epilog(epilog12, exit7)
		if err == nil || !strings.Contains(err.Error(), "was gone before the job's Epilog") || !strings.Contains(err.Error(), state.Spool) {
			t.Errorf("Epilog of a dead tracker: %v", err)
		}
		if exit, err := h.State.ReadExit(12, "n1", stem12); err != nil || exit.Code != rt.Some[int64](7) {
			t.Errorf("exit for the process that closes the run: %+v, %v", exit, err)
		}
		if err := h.Epilog(epilog12, exit7); err != nil {
			t.Errorf("second Epilog: %v", err)
		}
	})
	t.Run("tracker does not stop", func(t *testing.T) {
		h, _ := newHook(t, fakeStubborn)
		h.StopTimeout = 30 * time.Millisecond
		if err := h.Prolog(prolog12); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := h.Epilog(epilog12, exit7); err == nil || !strings.Contains(err.Error(), "has not ended within 30ms") {
				t.Errorf("Epilog: %v", err)
			}
		}
	})
	t.Run("tracker ended by itself", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		if err := h.State.create(); err != nil {
			t.Fatal(err)
		}
		// There is no lock next to the spool file: the run is closed.
		if err := h.State.writeStateFile(12, "n1", StateFile{PID: os.Getpid(), PIDStart: 1, RunID: stem12, Spool: filepath.Join(t.TempDir(), stem12+".db")}); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(epilog12, exit7); err != nil {
			t.Errorf("Epilog after the tracker's grace time: %v", err)
		}
		for _, suffix := range []string{"json", "exit"} {
			if path := h.State.path(12, "n1", suffix); exists(path) {
				t.Errorf("%s is left", path)
			}
		}
	})
	t.Run("number of another process", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		if err := h.State.create(); err != nil {
			t.Fatal(err)
		}
		// The number of this test's process, with another start time.
		state := StateFile{PID: os.Getpid(), PIDStart: 1, RunID: stem12, Spool: filepath.Join(t.TempDir(), stem12+".db")}
		if err := os.WriteFile(state.lock(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.State.writeStateFile(12, "n1", state); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(epilog12, exit7); err == nil || !strings.Contains(err.Error(), "was gone") {
			t.Errorf("Epilog: %v", err)
		}
	})
	t.Run("damaged state file", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		if err := h.State.create(); err != nil {
			t.Fatal(err)
		}
		path := h.State.path(12, "n1", "json")
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(epilog12, exit7); err == nil || !strings.Contains(err.Error(), path+" is damaged") {
			t.Errorf("Epilog: %v", err)
		}
		if err := h.Epilog(epilog12, exit7); err != nil {
			t.Errorf("second Epilog: %v", err)
		}
	})
}

// status waits until the deadline, or 10 ms, for a tracker that does not end.
func TestStatusKeepsTheDeadline(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for left, want := range map[time.Duration]time.Duration{-time.Second: leastWait, time.Millisecond: leastWait, 250 * time.Millisecond: 250 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			text := (&tracker{pid: cmd.Process.Pid}).status(began.Add(left))
			if waited := time.Since(began); text != "" || waited != want {
				t.Errorf("%v before the deadline: %q after %v, want %v", left, text, waited, want)
			}
		})
	}
}
