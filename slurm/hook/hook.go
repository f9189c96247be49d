package hook

import (
	"os"
	"sync/atomic"
	"time"
)

// Hook is what Prolog and Epilog need to know beside the environment. All paths
// are absolute.
type Hook struct {
	Tracker      string        // the rt-tracker binary
	ConfigFile   string        // given to the tracker as --config; empty: it reads the default file
	SpoolDir     string        // where the run's file will be, for the note
	State        State         // where Prolog and Epilog meet
	User         *User         // whom the tracker runs as; nil: as this process
	Counters     bool          // it counts hardware events, which takes a capability more
	Interval     time.Duration // between readings, noted in the run
	ReadyTimeout time.Duration // how long a Prolog waits for the tracker
	StopTimeout  time.Duration // how long an Epilog waits for it
	Failures     int           // so many in a row stop the Prolog ...
	Reset        time.Duration // ... for so long
	ProcRoot     string        // "/proc"

	Precheck  func() error             // why no tracker may start from here, counted as a failure; nil: no check
	GroupName func(gid uint64) string  // name of a user's group, empty where unknown
	OpenLog   func() (*os.File, error) // opens what gets the words of a crashing tracker; nil, or an error: nobody does

	attempt atomic.Pointer[attempt] // the Prolog's, while it tries
}

// GaveUp counts the Prolog that its caller waits for no longer as a failure and
// returns the cause, with a word where no more will be tried for a while. It may be
// called while Prolog is at work, whose own result counts no more then; for an
// Epilog it returns the cause alone.
func (h *Hook) GaveUp(cause error) error {
	if a := h.attempt.Load(); a != nil {
		return a.failed(cause)
	}
	return cause
}

// User is whom a tracker runs as.
type User struct{ UID, GID uint32 }
