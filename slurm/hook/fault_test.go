package hook

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func TestPrologFaults(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, h *Hook)
		want    []string // all in the error
		noted   bool     // the tracker may still run, so the Epilog must find it
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
			_, err = h.State.ReadNote(12, "n1")
			if noted := err == nil; noted != tt.noted {
				t.Errorf("a note is left: %v, want %v", noted, tt.noted)
			}
			if !tt.noted {
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
			tracker, err := h.launch(&want, tt.deadline)
			if err != nil {
				t.Fatal(err)
			}
			defer killNote(t, Note{PID: tracker.pid, PIDStart: tracker.start})
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
		h := &Hook{Tracker: first.Tracker, State: first.State, ReadyTimeout: 20 * time.Second, Failures: 3, Reset: time.Hour, ProcRoot: "/proc"}
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
	if st := first.breaker("n1").read(); st.Failures != 0 || len(st.Trying) != 3 {
		t.Errorf("the file while three hang: %+v", st)
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
	if st := first.breaker("n1").read(); st.Failures != 3 || len(st.Trying) != 0 {
		t.Errorf("the file has %+v", st)
	}
	if err := new(Hook).GaveUp(os.ErrClosed); err != os.ErrClosed {
		t.Errorf("without an attempt: %v", err)
	}
}

// The next Prolog counts one that was killed as a failure.
func TestBreakerCountsKilledPrologs(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	// The number of this test's process, with another start time.
	gone := trial{PID: os.Getpid(), Start: 1, Job: 20}
	b := h.breaker("n1")
	if err := writeJSON(b.path, breakerState{Trying: []trial{gone, gone}}, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := b.begin(21, began)
	if st := b.read(); a == nil || err != nil || st.Failures != 2 || len(st.Trying) != 1 {
		t.Fatalf("two were killed: %+v, %v", st, err)
	}
	if err := a.withdraw(); err != nil || b.read().Failures != 2 {
		t.Errorf("a Prolog that started nothing: %+v, %v", b.read(), err)
	}
	if err := writeJSON(b.path, breakerState{Failures: 2, Trying: []trial{gone}}, 0o600); err != nil {
		t.Fatal(err)
	}
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
}

// A Prolog that cannot remove its entry, because others hold the breaker's file, does not
// count as killed.
func TestBreakerEntryNotRemoved(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	b := h.breaker("n1")
	// The number of this test's process, with another start time: it is not alive.
	a := &attempt{breaker: b, trial: trial{PID: os.Getpid(), Start: 1, Job: 20}, entered: true}
	if err := writeJSON(b.path, breakerState{Trying: []trial{a.trial}}, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := lockPath(b.path+".lock", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.succeeded(); err == nil || !strings.Contains(err.Error(), "another hook holds it") {
		t.Errorf("the lock was held: %v", err)
	}
	if err := held.release(); err != nil {
		t.Fatal(err)
	}
	if a, err = b.begin(21, began); err != nil || a == nil {
		t.Fatalf("the next: %v", err)
	}
	if st := b.read(); st.Failures != 0 || len(st.Trying) != 1 || st.Trying[0].Job != 21 {
		t.Errorf("the file has %+v", st)
	}
	if left, err := filepath.Glob(b.path + "*.well"); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestEpilogFaults(t *testing.T) {
	t.Run("tracker killed", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		h.SpoolDir = t.TempDir()
		if err := h.Prolog(prolog12); err != nil {
			t.Fatal(err)
		}
		note, err := h.State.ReadNote(12, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(note.lock(), nil, 0o600); err != nil { // its run is not closed
			t.Fatal(err)
		}
		if err := syscall.Kill(-note.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if p, err := findProcess("/proc", note.PID, note.PIDStart); err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
			t.Fatal("SIGKILL did not end it")
		}
		err = h.Epilog(epilog12, exit7)
		if err == nil || !strings.Contains(err.Error(), "was gone before the job's Epilog") || !strings.Contains(err.Error(), note.Spool) {
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
		if err := h.State.writeNote(12, "n1", Note{PID: os.Getpid(), PIDStart: 1, RunID: stem12, Spool: filepath.Join(t.TempDir(), stem12+".db")}); err != nil {
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
		note := Note{PID: os.Getpid(), PIDStart: 1, RunID: stem12, Spool: filepath.Join(t.TempDir(), stem12+".db")}
		if err := os.WriteFile(note.lock(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.State.writeNote(12, "n1", note); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(epilog12, exit7); err == nil || !strings.Contains(err.Error(), "was gone") {
			t.Errorf("Epilog: %v", err)
		}
	})
	t.Run("damaged note", func(t *testing.T) {
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
