package slurm

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
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
	DisableFile  string        // while it exists nothing is done; empty: there is no such switch
	Failures     int           // so many in a row stop the Prolog ...
	Reset        time.Duration // ... for so long
	ProcRoot     string        // "/proc"
	Hostname     string        // the node's name where Slurm does not say it

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

// disabled tells whether the kill switch is on.
func (h *Hook) disabled() bool {
	if h.DisableFile == "" {
		return false
	}
	_, err := os.Stat(h.DisableFile)
	return err == nil
}

// identify makes the Run of a node's hook.
func (h *Hook) identify(env Env, now time.Time) (rt.Run, error) {
	run, err := FromHook(env, now)
	if err != nil {
		return rt.Run{}, err
	}
	if c := env.Text("SLURM_SCRIPT_CONTEXT"); strings.HasSuffix(c, "_slurmctld") || strings.HasSuffix(c, "_task") {
		return rt.Run{}, fmt.Errorf("this hook runs as %s; in slurm.conf it belongs to Prolog= and Epilog=, which run on the node as root", c)
	}
	if run.Node == "" {
		run.Node = h.Hostname
	}
	return run, nil
}
