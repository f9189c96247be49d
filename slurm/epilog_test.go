package slurm

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// A tracker that has ended without closing its run has left its lock's file. How
// the job ended stays for whoever closes the run.
func TestEpilogOfARunThatWasNotClosed(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	h.SpoolDir = t.TempDir()
	if err := h.Prolog(prolog12, began); err != nil {
		t.Fatal(err)
	}
	note, err := h.State.ReadNote(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	lock := strings.TrimSuffix(note.Spool, ".db") + ".lock"
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Epilog(epilog12, began); err == nil || !strings.Contains(err.Error(), "has not closed its run") || !strings.Contains(err.Error(), lock) {
		t.Errorf("Epilog: %v", err)
	}
	if exit, err := h.State.ReadExit(12, "n1"); err != nil || exit.Code != rt.Some[int64](7) {
		t.Errorf("the exit: %+v, %v", exit, err)
	}
	if _, err := h.State.ReadNote(12, "n1"); err != nil {
		t.Errorf("the note: %v", err)
	}
}

// A tracker that waits for a full disk outlives its Epilog, which leaves it all
// it needs. The requeued job's Prolog is not kept from starting its own.
func TestRequeueWhileTheTrackerWaits(t *testing.T) {
	h, _ := newHook(t, fakeStubborn)
	if err := h.Prolog(prolog12, began); err != nil {
		t.Fatal(err)
	}
	old, err := h.State.ReadNote(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killNote(t, old) })
	h.StopTimeout = 30 * time.Millisecond
	if err := h.Epilog(epilog12, began); err == nil || !strings.Contains(err.Error(), "has not ended within 30ms") {
		t.Errorf("Epilog: %v", err)
	}
	if exit, err := h.State.ReadExit(12, "n1"); err != nil || exit.Code != rt.Some[int64](7) {
		t.Errorf("the exit: %+v, %v", exit, err)
	}
	if note, err := h.State.ReadNote(12, "n1"); err != nil || note.PID != old.PID {
		t.Errorf("the note: %+v, %v", note, err)
	}
	h.StopTimeout = 20 * time.Second
	setTracker(t, h, fakeGood)
	if err := h.Prolog(jobEnv("prolog_slurmd", "12", 1), began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if note, err := h.State.ReadNote(12, "n1"); err != nil || note.PID == old.PID || note.Attempt != 1 {
		t.Errorf("the note: %+v, %v", note, err)
	}
	if _, err := h.State.ReadExit(12, "n1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new attempt begins with an exit: %v", err)
	}
	if !alive("/proc", old.PID, old.PIDStart) {
		t.Error("the old attempt's tracker is gone")
	}
	if err := h.Epilog(jobEnv("epilog_slurmd", "12", 2), began.Add(time.Hour)); err != nil {
		t.Error(err)
	}
}
