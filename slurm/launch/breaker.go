package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt/internal/procfile"
)

// breaker is a circuit breaker: after repeated failures, Prologs start no trackers for a while.
// Without it, a node on which no tracker starts would delay each job.
//
// A late tracker is not a failure: on a busy node all trackers are late, and they record their
// jobs. The Epilog finds out whether a late tracker worked.
//
// A Prolog that succeeds does not lock or write the breaker's file, because hundreds may run
// at once. From its start until its result each Prolog has an entry, which is an empty file. A
// Prolog that is killed leaves its entry. A later Prolog removes it and counts it as a failure.
type breaker struct {
	path     string // of its file
	entries  string // directory of the entries; removed with the last entry
	procRoot string
	failures int           // failures in a row that open the breaker
	reset    time.Duration // time after which one Prolog tries again
}

// breakerState is the content of the breaker's file. The file exists only after a failure.
type breakerState struct {
	Failures int       `json:"failures"` // in a row
	Until    time.Time `json:"until"`    // no Prolog starts a tracker before this time; zero if the breaker is closed
}

// attempt is the attempt of one Prolog to start a tracker. The first call of failed, succeeded, late
// or withdraw ends it; later calls change nothing.
type attempt struct {
	breaker breaker
	entry   string // path; empty if it could not be written
	others  int    // number of Prologs that were starting a tracker when this one began
	now     time.Time
	once    sync.Once

	forked  atomic.Bool   // the tracker's process exists
	started chan struct{} // closed when the tracker has its state file and its run, or when it failed
}

const (
	// breakerLockTime limits the wait for the lock of the breaker's file. Another hook holds the lock
	// for less than 1 ms.
	breakerLockTime = 500 * time.Millisecond
	// hangPause is how long the breaker stays open after a Prolog that took too long. Then one Prolog
	// tries again. The pause is short, because the cause may be load that ends within seconds. The
	// pause doubles with each further failure, up to breaker.reset.
	hangPause = 10 * time.Second
	// maxEntries is the maximum number of entries that one Prolog checks. The Prolog begins at a
	// random entry.
	maxEntries = 16
)

func (h *Hook) breaker(node string) breaker {
	return breaker{
		path:     filepath.Join(h.State.Dir, "breaker@"+fileName(node)+".json"),
		entries:  filepath.Join(h.State.Dir, "prologs@"+fileName(node)),
		procRoot: h.ProcRoot, failures: h.Failures, reset: h.Reset,
	}
}

// begin adds the entry of a job's Prolog and returns its attempt. Without an attempt, the Prolog
// must start no tracker; an error then means that this Prolog has opened the breaker. An error
// with an attempt means that a file could not be written; the Prolog continues.
func (b breaker) begin(job uint64, now time.Time) (*attempt, error) {
	if st := b.read(); st.Failures >= b.failures && !b.tryAgain(now) {
		return nil, nil
	}
	others, killed := b.removeEnded()
	a := &attempt{breaker: b, others: others, now: now, started: make(chan struct{})}
	if killed > 0 {
		cause := errors.New("the Prolog was killed while it started a tracker")
		opened, err := b.count(killed, cause, now, isHang)
		if opened != nil {
			return nil, opened
		}
		return a, errors.Join(err, a.enter(job))
	}
	return a, a.enter(job)
}

// open reports whether the Prolog must start no tracker now.
func (b breaker) open(st breakerState, now time.Time) bool {
	isAhead := now.Before(st.Until) && st.Until.Sub(now) <= b.reset // a longer pause means that the clock was set back
	return st.Failures >= b.failures && isAhead
}

// tryAgain reports whether the pause of an open breaker has ended. It returns true to only one
// Prolog, which then starts a tracker. The others start none until this Prolog has closed the
// breaker, or until the next pause ends.
func (b breaker) tryAgain(now time.Time) (again bool) {
	err := b.update(func(st *breakerState) {
		again = !b.open(*st, now)
		if again {
			st.Until = now.Add(b.pause(st.Failures, isHang))
		}
	})
	return err == nil && again
}

// Values of afterHang. A hang is a Prolog that took too long, see hangPause.
const (
	isHang  = true
	isFault = false
)

// pause is how long the breaker stays open after this number of failures in a row.
func (b breaker) pause(failures int, afterHang bool) time.Duration {
	if !afterHang {
		return b.reset
	}
	doubled := min(max(failures-b.failures, 0), 16) // how often the pause doubles; at 16 it exceeds any reset
	return min(hangPause<<doubled, b.reset)
}

// count adds failures. The error opened is nil unless they open the breaker. It has their cause and
// the time when the breaker closes.
func (b breaker) count(failures int, cause error, now time.Time, afterHang bool) (opened, err error) {
	err = b.update(func(st *breakerState) {
		st.Failures += failures
		if st.Failures < b.failures {
			return
		}
		st.Until = now.Add(b.pause(st.Failures, afterHang))
		opened = fmt.Errorf("%w; that was failure %d in a row: jobs on this node run untracked until %s, remove %s to try sooner",
			cause, st.Failures, st.Until.Local().Format(time.RFC3339), b.path)
	})
	return opened, err
}

// failed counts the attempt as a failure. It returns the cause, or the error opened of count.
func (a *attempt) failed(cause error, afterHang bool) error {
	err := cause
	a.once.Do(func() {
		opened, lost := a.breaker.count(1, cause, a.now, afterHang)
		if opened != nil {
			err = opened
		}
		err = errors.Join(err, lost, a.leave())
	})
	return err
}

// succeeded closes the breaker.
func (a *attempt) succeeded() (err error) {
	a.once.Do(func() { err = errors.Join(a.breaker.close(), a.leave()) })
	return err
}

// withdraw ends the attempt without a result.
func (a *attempt) withdraw() (err error) {
	a.once.Do(func() { err = a.leave() })
	return err
}

// late ends the attempt of a late tracker. The Prolog assumes that the tracker works.
func (a *attempt) late() (err error) {
	a.once.Do(func() { err = errors.Join(a.breaker.closeOnTrial(), a.leave()) })
	return err
}

// closeOnTrial closes an open breaker, but the next failure opens it again.
func (b breaker) closeOnTrial() error {
	if st := b.read(); st.Failures < b.failures {
		return nil
	}
	return b.update(func(st *breakerState) {
		*st = breakerState{Failures: min(st.Failures, b.failures-1)}
	})
}

// close forgets all failures.
func (b breaker) close() error {
	if st := b.read(); st.Failures == 0 {
		return nil
	}
	return b.update(func(st *breakerState) { *st = breakerState{} })
}

// enter adds the attempt's entry.
func (a *attempt) enter(job uint64) error {
	b := a.breaker
	stat, err := procfile.ReadStat(b.procRoot, os.Getpid())
	if err != nil {
		return nil // others could not check an entry without a start time
	}
	path := filepath.Join(b.entries, fmt.Sprintf("%d-%d-%d", os.Getpid(), stat.Start, job))
	for range 10 { // another Prolog may remove the directory in between
		err = os.WriteFile(path, nil, 0o600)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		err = os.Mkdir(b.entries, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		a.entry = path
	}
	return err
}

// leave removes the attempt's entry, and the directory with the last entry.
func (a *attempt) leave() error {
	if a.entry == "" {
		return nil
	}
	err := removeIfThere(a.entry)
	_ = os.Remove(a.breaker.entries) // fails while the directory has other entries
	return err
}

// removeEnded removes the entries of killed Prologs. It returns the number of entries that stay
// and the number of removed entries.
func (b breaker) removeEnded() (others, killed int) {
	dir, err := os.Open(b.entries)
	if err != nil {
		return 0, 0 // no Prolog is running
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // entries that cannot be read are checked by a later Prolog
	first := rand.N(len(names) + 1)
	for i := range min(len(names), maxEntries) {
		name := names[(first+i)%len(names)]
		var pid int
		var start uint64
		_, err := fmt.Sscanf(name, "%d-%d-", &pid, &start)
		isRunning := err == nil && procfile.Alive(b.procRoot, pid, start)
		if !isRunning && os.Remove(filepath.Join(b.entries, name)) == nil {
			killed++
		}
	}
	return len(names) - killed, killed
}

// update changes the breaker's file under its lock.
func (b breaker) update(change func(*breakerState)) (err error) {
	lock, err := lockPath(b.path+".lock", time.Now().Add(breakerLockTime))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	st := b.read()
	change(&st)
	if st.Failures == 0 {
		return removeIfThere(b.path)
	}
	return writeJSON(b.path, st, 0o644) // rt-spool reads it as another user
}

// read returns the breaker's file. A file that cannot be read means a closed breaker.
func (b breaker) read() breakerState {
	var st breakerState
	if err := readJSON(b.path, &st); err != nil {
		return breakerState{}
	}
	return st
}
