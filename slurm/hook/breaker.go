package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/resource-tracker/rt/internal/procfile"
)

// breaker is a circuit breaker. It opens after repeated failures: Prologs then start no tracker,
// so that a node on which trackers cannot start does not delay each job.
//
// A Prolog adds its entry to the file before it starts a tracker, and removes the entry when it
// records the result. A Prolog that hangs and is killed never removes its entry: the next Prolog
// counts the entry as a failure. The entry of a running Prolog is not a failure.
type breaker struct {
	path     string
	procRoot string
	failures int           // number of failures in a row that opens the breaker
	reset    time.Duration // time after which one Prolog tries again
}

// breakerState is the breaker's file.
type breakerState struct {
	Failures int       `json:"failures"`         // in a row
	OpenedAt time.Time `json:"opened_at"`        // zero while it is closed
	Trying   []trial   `json:"trying,omitempty"` // Prologs without a result
}

// trial is the entry of a Prolog that is running or was killed.
type trial struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"pid_start_time"` // field 22 of its /proc/<pid>/stat
	Job   uint64 `json:"job_id"`
}

// markPath returns the path of a mark, a file that shows that the Prolog did not fail. The Prolog
// writes the mark if other hooks have locked the breaker's file, so that it cannot remove its entry.
func (b breaker) markPath(t trial) string {
	return fmt.Sprintf("%s.%d-%d.well", b.path, t.PID, t.Start)
}

// attempt represents one Prolog that tries to start a tracker. Only its first result counts.
type attempt struct {
	breaker breaker
	trial   trial
	entered bool // the entry is in the file
	now     time.Time
	once    sync.Once
}

// breakerLockTime limits the wait for the lock of the breaker's file. An update of the file takes
// less than 1 ms.
const breakerLockTime = 500 * time.Millisecond

func (h *Hook) breaker(node string) breaker {
	return breaker{filepath.Join(h.State.Dir, "breaker@"+fileName(node)+".json"), h.ProcRoot, h.Failures, h.Reset}
}

// begin adds the entry of a job's Prolog. If the breaker is open, it returns no attempt, and no
// error either. If this call opens the breaker, it returns no attempt and an error. If a file could
// not be written, it returns an attempt and an error, and the Prolog continues.
func (b breaker) begin(job uint64, now time.Time) (*attempt, error) {
	if st := b.read(); b.open(st, now) {
		return nil, nil
	}
	a := &attempt{breaker: b, trial: trial{PID: os.Getpid(), Job: job}, now: now}
	stat, err := procfile.ReadStat(b.procRoot, a.trial.PID)
	if err != nil {
		return a, nil // others could not check an entry without a start time
	}
	a.trial.Start = stat.Start
	var opened error
	err = b.update(func(st *breakerState) {
		if killed := b.removeEnded(st); killed > 0 {
			opened = b.count(st, killed, errors.New("the Prolog was killed while it started a tracker"), now)
		}
		if opened == nil {
			st.Trying = append(st.Trying, a.trial)
		}
	})
	if opened != nil {
		return nil, errors.Join(opened, err)
	}
	a.entered = err == nil
	return a, err
}

// removeEnded removes the entries of ended Prologs. It returns the number of those that were
// killed: they have no mark, see markPath.
func (b breaker) removeEnded(st *breakerState) (killed int) {
	st.Trying = slices.DeleteFunc(st.Trying, func(t trial) bool {
		if procfile.Alive(b.procRoot, t.PID, t.Start) {
			return false
		}
		if os.Remove(b.markPath(t)) != nil {
			killed++
		}
		return true
	})
	return killed
}

// open reports whether the breaker is open, so that a Prolog must not start a tracker now.
func (b breaker) open(st breakerState, now time.Time) bool {
	return st.Failures >= b.failures && now.Before(st.OpenedAt.Add(b.reset)) && !now.Before(st.OpenedAt)
}

// count adds failures. If they open the breaker, it returns an error with their cause and the time
// until which the breaker stays open.
func (b breaker) count(st *breakerState, failures int, cause error, now time.Time) error {
	st.Failures += failures
	if st.Failures < b.failures {
		return nil
	}
	st.OpenedAt = now
	return fmt.Errorf("%w; that was failure %d in a row: jobs on this node run untracked until %s, remove %s to try sooner",
		cause, st.Failures, now.Add(b.reset).Format(time.RFC3339), b.path)
}

// failed counts the attempt as a failure and returns its cause, see count.
func (a *attempt) failed(cause error) error {
	err := a.setResult(func(st *breakerState) {
		if opened := a.breaker.count(st, 1, cause, a.now); opened != nil {
			cause = opened
		}
	})
	if err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// succeeded closes the breaker.
func (a *attempt) succeeded() error {
	return a.orMark(a.setResult(func(st *breakerState) { st.Failures, st.OpenedAt = 0, time.Time{} }))
}

// withdraw withdraws the attempt: no tracker was started.
func (a *attempt) withdraw() error { return a.orMark(a.setResult(func(*breakerState) {})) }

// orMark writes the file of markPath if the entry could not be removed.
func (a *attempt) orMark(err error) error {
	if err == nil || !a.entered {
		return err
	}
	return errors.Join(err, os.WriteFile(a.breaker.markPath(a.trial), nil, 0o600))
}

// setResult removes the entry and records the attempt's result. Only the first result counts.
func (a *attempt) setResult(result func(*breakerState)) (err error) {
	a.once.Do(func() {
		err = a.breaker.update(func(st *breakerState) {
			if i := slices.Index(st.Trying, a.trial); i >= 0 {
				st.Trying = slices.Delete(st.Trying, i, i+1)
			}
			result(st)
		})
	})
	return err
}

// update changes the breaker's file under its lock.
func (b breaker) update(change func(*breakerState)) (err error) {
	lock, err := lockPath(b.path+".lock", time.Now().Add(breakerLockTime))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	st := b.read()
	change(&st)
	if st.Failures == 0 && len(st.Trying) == 0 {
		return removeIfThere(b.path)
	}
	return writeJSON(b.path, st, 0o600)
}

// read returns the content of the breaker's file. If the file cannot be read, the breaker is
// closed.
func (b breaker) read() breakerState {
	var st breakerState
	if err := readJSON(b.path, &st); err != nil {
		return breakerState{}
	}
	return st
}
