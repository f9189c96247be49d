// Package hook starts a tracker in a job's Prolog and stops it in the job's Epilog. The two
// find each other by the files of State.
package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
	"github.com/resource-tracker/rt/slurm"
)

// ErrTracked means that the job already has a tracker: its Prolog ran twice.
var ErrTracked = errors.New("this attempt of the job is tracked already")

// Prolog starts a tracker for the run, which begins now, and waits at most ReadyTimeout until
// the tracker is ready. If the attempt of the job already has a running tracker, the error is
// ErrTracked. Prolog sends SIGTERM to the tracker of an earlier attempt and does not wait for
// it.
//
// The error is only for the log: if the hook failed, Slurm would drain the node. After Failures
// errors in a row, Prolog starts no tracker and returns no error until Reset has passed. A
// Prolog that was killed counts as a failure at the next call; GaveUp counts one that hangs.
func (h *Hook) Prolog(run rt.Run) error {
	if err := h.State.create(); err != nil {
		return err
	}
	h.State.createShared(h.User)
	a, uncounted := h.breaker(run.Node).begin(run.JobID.Or(0), run.Start)
	if a == nil {
		return uncounted
	}
	h.attempt.Store(a)
	err := h.track(&run)
	switch {
	case errors.Is(err, ErrTracked):
		return errors.Join(err, uncounted, a.withdraw())
	case err != nil:
		return errors.Join(a.failed(err), uncounted)
	}
	return errors.Join(uncounted, a.succeeded())
}

// complete adds the fields to the run that the environment does not have.
func (h *Hook) complete(run *rt.Run) {
	if gid, ok := run.GID.Get(); ok && run.Group == "" && h.GroupName != nil {
		run.Group = h.GroupName(gid)
	}
	slurm.Describe(run)
	if id, err := os.ReadFile(filepath.Join(h.ProcRoot, "sys/kernel/random/boot_id")); err == nil {
		run.BootID = strings.TrimSpace(string(id))
	}
	run.Interval = h.Interval.Seconds()
	run.TrackerVersion = rt.Version
}

// track starts the tracker, writes the note and waits, with the job's lock.
func (h *Hook) track(run *rt.Run) (err error) {
	if h.Precheck != nil {
		if err := h.Precheck(); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(h.ReadyTimeout)
	job := run.JobID.Or(0)
	lock, err := h.State.lock(job, run.Node, deadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if err := h.clear(run); err != nil {
		return err
	}
	t, err := h.launch(run, deadline)
	if err != nil {
		return err
	}
	err = h.State.writeNote(job, run.Node, Note{
		PID: t.pid, PIDStart: t.start, Attempt: run.Attempt,
		RunID: run.FileStem(), Spool: filepath.Join(h.SpoolDir, run.FileStem()+".db"), Started: run.Start,
	})
	if err != nil {
		// The Epilog could not find the tracker, and a second Prolog would start another.
		return errors.Join(err, t.stop())
	}
	running, err := t.waitReady(deadline)
	if !running {
		err = errors.Join(err, h.State.removeNote(job, run.Node))
	}
	return err
}

// clear removes what is left of an earlier attempt, and stops its tracker without waiting. It
// fails with ErrTracked if this attempt has a tracker.
func (h *Hook) clear(run *rt.Run) error {
	job := run.JobID.Or(0)
	old, err := h.State.ReadNote(job, run.Node)
	if err == nil && procfile.Alive(h.ProcRoot, old.PID, old.PIDStart) {
		if old.Attempt == run.Attempt {
			return fmt.Errorf("%w, by process %d", ErrTracked, old.PID)
		}
		if err := h.terminate(old); err != nil {
			return fmt.Errorf("cannot stop the tracker of the job's attempt %d: %w", old.Attempt, err)
		}
	}
	// An exit that exists is that of an earlier attempt.
	if err := h.State.RemoveExit(job, run.Node); err != nil {
		return fmt.Errorf("cannot clear the job's exit: %w", err)
	}
	return nil
}

// terminate sends SIGTERM to a tracker; a tracker that has ended is no error.
func (h *Hook) terminate(note Note) error {
	p, err := findProcess(h.ProcRoot, note.PID, note.PIDStart)
	if err == nil {
		err = errors.Join(p.terminate(), p.close())
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Hook has the configuration of Prolog and Epilog. All paths are absolute.
type Hook struct {
	Tracker      string        // the rt-tracker binary
	ConfigFile   string        // --config of the tracker; empty: it reads the default file
	SpoolDir     string        // directory of the run's file, for the note
	State        State         // files by which Prolog and Epilog find each other
	User         *User         // the tracker's user; nil: the user of this process
	Counters     bool          // the tracker counts hardware events, which needs one more capability
	Interval     time.Duration // between readings, recorded in the run
	ReadyTimeout time.Duration // limit of a Prolog's wait for the tracker
	StopTimeout  time.Duration // limit of an Epilog's wait for it
	Failures     int           // failures in a row after which no Prolog starts a tracker ...
	Reset        time.Duration // ... until this has passed
	ProcRoot     string        // "/proc"

	Precheck  func() error             // returns why no tracker may start from this process: a failure; nil: no check
	GroupName func(gid uint64) string  // name of a user's group, empty if unknown
	OpenLog   func() (*os.File, error) // opens the file for what a crashing tracker prints; nil or an error: /dev/null

	attempt atomic.Pointer[attempt] // of the Prolog, while it runs
}

// GaveUp counts a Prolog that the caller no longer waits for as a failure, and returns the cause
// with how long Prologs start no tracker if this failure decides that. A later result of the
// Prolog does not count. For an Epilog GaveUp returns only the cause.
func (h *Hook) GaveUp(cause error) error {
	if a := h.attempt.Load(); a != nil {
		return a.failed(cause)
	}
	return cause
}

// User is the user of a tracker.
type User struct{ UID, GID uint32 }
