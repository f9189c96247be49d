// Package hook starts a tracker in a job's Prolog and stops it in the job's Epilog. The two
// find each other by the files of State.
package hook

import (
	"os"
	"sync/atomic"
	"time"
)

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

// GaveUp counts a Prolog that the caller no longer waits for as a failure. It returns the
// cause, and adds how long Prologs start no tracker if this failure decides that. Prolog
// may still be running: its own result no longer counts. For an Epilog GaveUp returns only
// the cause.
func (h *Hook) GaveUp(cause error) error {
	if a := h.attempt.Load(); a != nil {
		return a.failed(cause)
	}
	return cause
}

// User is the user of a tracker.
type User struct{ UID, GID uint32 }
