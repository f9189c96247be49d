// Package launch starts a tracker in a job's Prolog and stops it in the job's Epilog. The two
// find each other by the files of State.
package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// ErrTracked means that the job already has a tracker: its Prolog ran twice.
var ErrTracked = errors.New("this attempt of the job is tracked already")

// ErrLate means that the tracker was started and may work, but was not ready in time.
var ErrLate = errors.New("it keeps running")

// errBusy means that another hook has a lock.
var errBusy = errors.New("another hook holds it")

// Prolog starts a tracker for the run, which begins now, and waits at most ReadyTimeout until the
// tracker is ready. If the attempt of the job already has a running tracker, the error is
// ErrTracked. Prolog sends SIGUSR1 to the tracker of an earlier attempt and does not wait for it.
//
// The error is only for the log: if the hook failed, Slurm would drain the node. After Failures
// failures in a row, Prolog starts no tracker and returns no error until Reset has passed. An error
// that a high load can cause is no failure. Such errors are ErrTracked, ErrLate, a job that another
// hook has locked, and a tracker that did not read its run in time.
//
// Some failures are counted later. The Epilog counts a late tracker that ends without a run. The
// next Prolog counts a Prolog that was killed. GaveUp counts a Prolog that hangs.
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
	err := h.track(&run, a)
	switch {
	case err == nil:
		return errors.Join(uncounted, a.succeeded())
	case errors.Is(err, ErrLate):
		return errors.Join(err, uncounted, a.late())
	case errors.Is(err, ErrTracked), errors.Is(err, errBusy), errors.Is(err, os.ErrDeadlineExceeded):
		return errors.Join(err, uncounted, a.withdraw())
	}
	return errors.Join(a.failed(err, isFault), uncounted)
}

// track starts the tracker and waits, with the job's lock.
func (h *Hook) track(run *rt.Run, a *attempt) (err error) {
	if h.Prepare != nil {
		if err := h.Prepare(); err != nil {
			return err
		}
	}
	pace := newSpread(a.others, runtime.NumCPU())
	time.Sleep(pace.fork)
	deadline := time.Now().Add(h.ReadyTimeout)
	lock, err := h.State.lock(run.JobID.Or(0), run.Node, deadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := h.clear(run); err != nil {
		return err
	}
	t, state, err := h.start(run, a, pace.begin, deadline)
	if err != nil {
		return err
	}
	running, err := t.waitReady(deadline)
	switch {
	case !running:
		err = errors.Join(err, h.State.removeStateFile(run.JobID.Or(0), run.Node))
	case err != nil:
		state.Late, state.Delayed = true, t.delay > 0
		err = errors.Join(err, h.State.writeStateFile(run.JobID.Or(0), run.Node, state))
	}
	return err
}

// start starts the tracker, writes its state file and then sends the run to the tracker, which does
// nothing without a run. So the Epilog finds every tracker, even if the Prolog is killed.
func (h *Hook) start(run *rt.Run, a *attempt, delay time.Duration, deadline time.Time) (_ *tracker, state StateFile, err error) {
	defer close(a.started)
	t, err := h.launch(delay)
	if err != nil {
		return nil, state, err
	}
	a.forked.Store(true)
	defer t.feed.Close()
	job := run.JobID.Or(0)
	state = StateFile{
		PID: t.pid, PIDStart: t.start, Attempt: run.Attempt,
		RunID: run.FileStem(), Spool: filepath.Join(h.SpoolDir, run.FileStem()+".db"), Started: run.Start,
		Stop: syscall.SIGUSR1,
	}
	if err := h.State.writeStateFile(job, run.Node, state); err != nil {
		return nil, state, errors.Join(err, t.stop())
	}
	if err := t.describe(h.Describe(run), deadline); err != nil {
		return nil, state, errors.Join(err, t.stop(), h.State.removeStateFile(job, run.Node))
	}
	return t, state, nil
}

// clear removes what is left of an earlier attempt, and stops its tracker without waiting. It
// fails with ErrTracked if this attempt has a tracker.
func (h *Hook) clear(run *rt.Run) error {
	job := run.JobID.Or(0)
	old, err := h.State.ReadStateFile(job, run.Node)
	if err == nil && procfile.Alive(h.ProcRoot, old.PID, old.PIDStart) {
		if old.Attempt == run.Attempt {
			return fmt.Errorf("%w, by process %d", ErrTracked, old.PID)
		}
		if err := h.stopEarlier(old); err != nil {
			return fmt.Errorf("cannot stop the tracker of the job's attempt %d: %w", old.Attempt, err)
		}
	}
	// An exit that exists belongs to an earlier attempt.
	if err := h.State.RemoveExit(job, run.Node); err != nil {
		return fmt.Errorf("cannot clear the job's exit: %w", err)
	}
	return nil
}

// stopEarlier stops a tracker without waiting; a tracker that has ended is no error.
func (h *Hook) stopEarlier(state StateFile) error {
	p, err := findProcess(h.ProcRoot, state.PID, state.PIDStart)
	if err == nil {
		err = errors.Join(p.stop(state.stopSignal()), p.close())
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
	SpoolDir     string        // directory of the run's file, for the state file
	State        State         // files by which Prolog and Epilog find each other
	User         *User         // the tracker's user; nil: the user of this process
	Counters     bool          // the tracker counts hardware events, which needs one more capability
	ReadyTimeout time.Duration // limit of a Prolog's wait for the tracker
	StopTimeout  time.Duration // limit of an Epilog's wait for it
	Failures     int           // failures in a row after which no Prolog starts a tracker ...
	Reset        time.Duration // ... until this has passed
	ProcRoot     string        // "/proc"

	Describe func(*rt.Run) []byte     // returns the text that a tracker reads on its standard input: its run
	Prepare  func() error             // prepares this process for starting a tracker; an error is a failure; nil: nothing to do
	OpenLog  func() (*os.File, error) // opens the file for what a crashing tracker prints; nil or an error: /dev/null

	attempt atomic.Pointer[attempt] // of the Prolog, while it runs
}

// GaveUp counts a Prolog that the caller no longer waits for as a failure, and returns the cause.
// If this failure opens the breaker, the error also says for how long. A later result of the
// Prolog does not count.
//
// If the Prolog has started its tracker, the tracker is only late: GaveUp waits until the tracker
// has its run, and the error is ErrLate. For an Epilog GaveUp returns only the cause.
func (h *Hook) GaveUp(cause error) error {
	a := h.attempt.Load()
	if a == nil {
		return cause
	}
	if a.forked.Load() {
		<-a.started
		return errors.Join(fmt.Errorf("%w, after the tracker was started; %w", cause, ErrLate), a.withdraw())
	}
	return a.failed(cause, isHang)
}

// User is the user of a tracker.
type User struct{ UID, GID uint32 }
