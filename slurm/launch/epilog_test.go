package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/procfile"
)

// startTracker12 runs the Prolog of job 12 with a tracker, and returns the state file.
func startTracker12(t *testing.T, fake string) (*Hook, StateFile) {
	t.Helper()
	h, _ := newHook(t, fake)
	h.SpoolDir = t.TempDir()
	if err := h.Prolog(prolog12); err != nil {
		t.Fatal(err)
	}
	state, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	return h, state
}

// A tracker that has ended without closing its run has left its lock. The job's exit stays
// for the process that closes the run.
func TestEpilogOfUnclosedRun(t *testing.T) {
	h, state := startTracker12(t, fakeGood)
	lock := strings.TrimSuffix(state.Spool, ".db") + ".lock"
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Epilog(epilog12, exit7); err == nil || !strings.Contains(err.Error(), "has not closed its run") || !strings.Contains(err.Error(), lock) {
		t.Errorf("Epilog: %v", err)
	}
	if exit, err := h.State.ReadExit(12, "n1", stem12); err != nil || exit.Code != rt.Some[int64](7) {
		t.Errorf("the exit: %+v, %v", exit, err)
	}
	if _, err := h.State.ReadStateFile(12, "n1"); err != nil {
		t.Errorf("the state file: %v", err)
	}
}

// The Epilog does not wait until a tracker that has closed its run has ended. The Prolog of the
// requeued job starts another tracker.
func TestEpilogOfClosedRun(t *testing.T) {
	h, state := startTracker12(t, fakeStubborn)
	t.Cleanup(func() { killTracker(t, state) })
	lock, err := file.TryLock(state.lock())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() {
		exit := h.State.path(12, "n1", "exit") // the Epilog writes it
		written := await.Changed(filepath.Dir(exit), func() bool { return exists(exit) })
		closed <- errors.Join(written, lock.Release())
	}()
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if !procfile.Alive("/proc", state.PID, state.PIDStart) {
		t.Error("the tracker has ended")
	}
	for _, suffix := range []string{"json", "exit", "lock"} {
		if path := h.State.path(12, "n1", suffix); exists(path) {
			t.Errorf("%s is left", path)
		}
	}
	setTracker(t, h, fakeGood)
	if err := h.Prolog(jobRun(12, 1, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if next, err := h.State.ReadStateFile(12, "n1"); err != nil || next.PID == state.PID || next.Attempt != 1 {
		t.Errorf("the state file: %+v, %v", next, err)
	}
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Error(err)
	}
}

// A tracker that waits for a full disk keeps running after its Epilog, which leaves the
// files that it needs. The Prolog of the requeued job starts another tracker.
func TestRequeueWhileTheTrackerWaits(t *testing.T) {
	h, _ := newHook(t, fakeStubborn)
	if err := h.Prolog(prolog12); err != nil {
		t.Fatal(err)
	}
	old, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killTracker(t, old) })
	h.StopTimeout = 30 * time.Millisecond
	if err := h.Epilog(epilog12, exit7); err == nil || !strings.Contains(err.Error(), "has not ended within 30ms") {
		t.Errorf("Epilog: %v", err)
	}
	if exit, err := h.State.ReadExit(12, "n1", stem12); err != nil || exit.Code != rt.Some[int64](7) {
		t.Errorf("the exit: %+v, %v", exit, err)
	}
	if state, err := h.State.ReadStateFile(12, "n1"); err != nil || state.PID != old.PID {
		t.Errorf("the state file: %+v, %v", state, err)
	}
	h.StopTimeout = 20 * time.Second
	setTracker(t, h, fakeGood)
	if err := h.Prolog(jobRun(12, 1, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if state, err := h.State.ReadStateFile(12, "n1"); err != nil || state.PID == old.PID || state.Attempt != 1 {
		t.Errorf("the state file: %+v, %v", state, err)
	}
	if _, err := h.State.ReadExit(12, "n1", stem12); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new attempt has an exit at its start: %v", err)
	}
	if !procfile.Alive("/proc", old.PID, old.PIDStart) {
		t.Error("the old attempt's tracker is gone")
	}
	if err := h.Epilog(jobRun(12, 2, time.Hour), exit7); err != nil {
		t.Error(err)
	}
}

// A later Epilog of the node removes the files of a tracker that ended after its own
// Epilog. Files that a process may still read stay.
func TestLaterEpilogRemovesStaleState(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	h.SpoolDir = t.TempDir()
	if err := h.State.create(); err != nil {
		t.Fatal(err)
	}
	writeState := func(job uint64, pid int, run string) {
		t.Helper()
		n := StateFile{PID: pid, PIDStart: 1, RunID: run, Spool: filepath.Join(h.SpoolDir, run+".db")}
		if err := h.State.writeStateFile(job, "n1.site", n); err != nil {
			t.Fatal(err)
		}
	}
	exit := func(job uint64, run string) {
		t.Helper()
		if err := h.State.writeExit(job, "n1.site", run, rt.Exit{}); err != nil {
			t.Fatal(err)
		}
	}
	const noPID = 1 << 30
	writeState(1, noPID, "closed")
	exit(1, "closed")
	writeState(2, noPID, "unclosed")
	exit(2, "unclosed")
	exit(3, "closed by drain")
	exit(4, "for drain")
	for _, run := range []string{"unclosed", "for drain"} {
		if err := os.WriteFile(filepath.Join(h.SpoolDir, run+".lock"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Late trackers have ended without a run. The first job's own Epilog has not run yet.
	for job := uint64(9); job <= 10; job++ {
		if err := h.State.writeStateFile(job, "n1.site", StateFile{PID: noPID, PIDStart: 1, RunID: "none", Spool: filepath.Join(h.SpoolDir, "none.db"), Late: true}); err != nil {
			t.Fatal(err)
		}
	}
	exit(10, "none")
	self, err := procfile.ReadStat("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	living := StateFile{PID: os.Getpid(), PIDStart: self.Start, RunID: "living", Spool: filepath.Join(h.SpoolDir, "living.db")}
	if err := h.State.writeStateFile(5, "n1.site", living); err != nil {
		t.Fatal(err)
	}
	writeState(6, noPID, "held")
	held, err := h.State.lock(6, "n1.site", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Release() })
	for _, left := range []string{"7@n1.site.lock", "8@n1.site.json.tmp", "12@n1.exit.tmp", "breaker@n1.json.lock", "breaker@n1.json.tmp"} { // of hooks that were killed
		path, before := filepath.Join(h.State.Dir, left), time.Now().Add(-2*hookAge)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, before, before)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.State.Dir, "13@n1.site.lock"), nil, 0o600); err != nil { // of a hook that is working
		t.Fatal(err)
	}
	// One Epilog at a time: another one leaves the files, and takes no lock.
	sweep, err := file.TryLock(filepath.Join(h.State.Dir, sweepLock))
	if err != nil || sweep == nil {
		t.Fatal(err)
	}
	all := stateFiles(t, h)
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Fatal(err)
	}
	if got := stateFiles(t, h); !slices.Contains(got, "7@n1.site.lock") || !slices.Contains(got, "1@n1.site.json") {
		t.Errorf("left are %v of %v", got, all)
	}
	if err := sweep.Release(); err != nil {
		t.Fatal(err)
	}
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Fatal(err)
	}
	want := []string{"13@n1.site.lock", "2@n1.site.exit", "2@n1.site.json", "4@n1.site.exit", "5@n1.site.json", "6@n1.site.json", "6@n1.site.lock", "9@n1.site.json"}
	if got := stateFiles(t, h); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if err := h.State.removeStateFile(5, "n1.site"); err != nil { // it is this process, which the test does not kill
		t.Fatal(err)
	}
}

// The exit of a job's later attempt does not apply to the earlier one.
func TestExitIsOfOneRun(t *testing.T) {
	s := State{t.TempDir()}
	if err := s.writeExit(12, "n1", "job-12-n1-2000", rt.Exit{Code: rt.Some[int64](3)}); err != nil {
		t.Fatal(err)
	}
	if e, err := s.ReadExit(12, "n1", "job-12-n1-1000"); !errors.Is(err, fs.ErrNotExist) || e.Code.Valid() {
		t.Errorf("of the earlier attempt: %+v, %v", e, err)
	}
	if e, err := s.ReadExit(12, "n1", "job-12-n1-2000"); err != nil || e.Code != rt.Some[int64](3) {
		t.Errorf("of its own: %+v, %v", e, err)
	}
}

// A state file without a signal is from an older Prolog. Its tracker knows only SIGTERM.
func TestStopsTrackerOfOlderProlog(t *testing.T) {
	h, _ := newHook(t, "trap '' USR1; trap 'exit 0' TERM\necho ready >&3\nexec 3>&-\n"+forever)
	for job, stop := range map[uint64]func(note StateFile) error{
		12: func(StateFile) error { return h.Epilog(epilog12, exit7) },
		13: h.stopEarlier,
	} {
		if err := h.Prolog(jobRun(job, 0, 0)); err != nil {
			t.Fatal(err)
		}
		note, err := h.State.ReadStateFile(job, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if note.Stop != syscall.SIGUSR1 {
			t.Errorf("the Prolog writes the signal %v", note.Stop)
		}
		note.Stop = 0
		if err := h.State.writeStateFile(job, "n1", note); err != nil {
			t.Fatal(err)
		}
		if err := stop(note); err != nil {
			t.Error(err)
		}
		p, err := findProcess("/proc", note.PID, note.PIDStart)
		if err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
			t.Errorf("the tracker of job %d is not stopped", job)
		}
	}
}
