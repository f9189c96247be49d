package slurm

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// breaker stops the Prolog from trying what failed time and again: a node where
// no tracker starts must not pay for it at each job.
type breaker struct {
	path     string
	failures int           // so many in a row open it
	reset    time.Duration // after this it lets one Prolog try
}

// breakerState is the breaker's file.
type breakerState struct {
	Failures int       `json:"failures"`  // in a row
	OpenedAt time.Time `json:"opened_at"` // zero while it is closed
}

func (s State) breaker(node string, failures int, reset time.Duration) breaker {
	return breaker{filepath.Join(s.Dir, "breaker@"+fileName(node)+".json"), failures, reset}
}

// open tells whether the Prolog must not try now. What cannot be read is closed.
func (b breaker) open(now time.Time) bool {
	var st breakerState
	if err := readJSON(b.path, &st); err != nil {
		return false
	}
	return st.Failures >= b.failures && now.Before(st.OpenedAt.Add(b.reset)) && !now.Before(st.OpenedAt)
}

// failed counts a failure and returns it, with a word where it opens the breaker.
func (b breaker) failed(cause error, now time.Time) error {
	var st breakerState
	if err := readJSON(b.path, &st); err != nil && !errors.Is(err, fs.ErrNotExist) {
		st = breakerState{}
	}
	st.Failures++
	opens := st.Failures >= b.failures
	if opens {
		st.OpenedAt = now
	}
	if err := writeJSON(b.path, st, 0o600); err != nil {
		return errors.Join(cause, err)
	}
	if opens {
		return fmt.Errorf("%w; that was failure %d in a row: jobs on this node run untracked until %s, remove %s to try sooner",
			cause, st.Failures, now.Add(b.reset).Format(time.RFC3339), b.path)
	}
	return cause
}

// succeeded closes the breaker.
func (b breaker) succeeded() error { return removeIfThere(b.path) }
