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

// breaker stops the Prolog from trying what failed time and again: a node where
// no tracker starts must not pay for it at each job.
//
// A Prolog signs in before it tries and out when it knows how that went. One that
// hangs, and is killed or ends itself, never signs out: the next one counts it as
// a failure. Those that are at work at the same time are no failures.
type breaker struct {
	path     string
	procRoot string
	failures int           // so many in a row open it
	reset    time.Duration // after this it lets one Prolog try
}

// breakerState is the breaker's file.
type breakerState struct {
	Failures int       `json:"failures"`         // in a row
	OpenedAt time.Time `json:"opened_at"`        // zero while it is closed
	Trying   []trial   `json:"trying,omitempty"` // Prologs that have not signed out
}

// trial is a Prolog at work, or one that ended in the midst of it.
type trial struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"pid_start_time"` // field 22 of its /proc/<pid>/stat
	Job   uint64 `json:"job_id"`
}

// wellPath is a file that a Prolog leaves whose trial did not fail, where it could not
// sign out: others held the breaker's file too long.
func (b breaker) wellPath(t trial) string {
	return fmt.Sprintf("%s.%d-%d.well", b.path, t.PID, t.Start)
}

// attempt is one Prolog's trial until it is settled, once and for all.
type attempt struct {
	breaker breaker
	trial   trial
	signed  bool // in
	now     time.Time
	once    sync.Once
}

// breakerLockTime bounds the wait for a hook that reads or writes the breaker's
// file, which takes it well below a millisecond.
const breakerLockTime = 500 * time.Millisecond

func (h *Hook) breaker(node string) breaker {
	return breaker{filepath.Join(h.State.Dir, "breaker@"+fileName(node)+".json"), h.ProcRoot, h.Failures, h.Reset}
}

// begin signs the Prolog of a job in. The attempt is nil where it must not try now;
// the error says why then, if none has said so before. Beside an attempt the error
// is that it is not on record.
func (b breaker) begin(job uint64, now time.Time) (*attempt, error) {
	if st := b.read(); b.open(st, now) {
		return nil, nil
	}
	a := &attempt{breaker: b, trial: trial{PID: os.Getpid(), Job: job}, now: now}
	stat, err := procfile.ReadStat(b.procRoot, a.trial.PID)
	if err != nil {
		return a, nil // without a name that others can check it is not on record
	}
	a.trial.Start = stat.Start
	var opened error
	err = b.update(func(st *breakerState) {
		if died := b.forgetDead(st); died > 0 {
			opened = b.count(st, died, errors.New("the Prolog was killed while it started a tracker"), now)
		}
		if opened == nil {
			st.Trying = append(st.Trying, a.trial)
		}
	})
	if opened != nil {
		return nil, errors.Join(opened, err)
	}
	a.signed = err == nil
	return a, err
}

// forgetDead takes out those at work that are not alive, and counts who was killed.
func (b breaker) forgetDead(st *breakerState) (killed int) {
	st.Trying = slices.DeleteFunc(st.Trying, func(t trial) bool {
		if procfile.Alive(b.procRoot, t.PID, t.Start) {
			return false
		}
		if os.Remove(b.wellPath(t)) != nil { // it did not say that all was well
			killed++
		}
		return true
	})
	return killed
}

// open tells whether the Prolog must not try now.
func (b breaker) open(st breakerState, now time.Time) bool {
	return st.Failures >= b.failures && now.Before(st.OpenedAt.Add(b.reset)) && !now.Before(st.OpenedAt)
}

// count adds failures; where they open the breaker it returns their cause with a
// word about that, else nil.
func (b breaker) count(st *breakerState, failures int, cause error, now time.Time) error {
	st.Failures += failures
	if st.Failures < b.failures {
		return nil
	}
	st.OpenedAt = now
	return fmt.Errorf("%w; that was failure %d in a row: jobs on this node run untracked until %s, remove %s to try sooner",
		cause, st.Failures, now.Add(b.reset).Format(time.RFC3339), b.path)
}

// failed counts the attempt as a failure and returns its cause, with a word where
// it opens the breaker.
func (a *attempt) failed(cause error) error {
	err := a.settle(func(st *breakerState) {
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
	return a.well(a.settle(func(st *breakerState) { st.Failures, st.OpenedAt = 0, time.Time{} }))
}

// needless takes the attempt back: nothing was tried.
func (a *attempt) needless() error { return a.well(a.settle(func(*breakerState) {})) }

// well leaves word for the next Prolog where this one could not sign out.
func (a *attempt) well(err error) error {
	if err == nil || !a.signed {
		return err
	}
	return errors.Join(err, os.WriteFile(a.breaker.wellPath(a.trial), nil, 0o600))
}

// settle signs out with the attempt's result; what comes after the first result
// counts no more.
func (a *attempt) settle(result func(*breakerState)) (err error) {
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

// update changes the breaker's file, alone.
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

// read returns what is on record; what cannot be read is a closed breaker's.
func (b breaker) read() breakerState {
	var st breakerState
	if err := readJSON(b.path, &st); err != nil {
		return breakerState{}
	}
	return st
}
