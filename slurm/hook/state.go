package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// State is the directory with the files of a job's Prolog and Epilog on a node
// (tracker.state_dir). It is below /run, so that a reboot empties it.
//
//	<jobid>@<node>.json  Note: the job's tracker; written by the Prolog, readable by root
//	<jobid>@<node>.exit  rt.Exit: how the job ended; written by the Epilog, for the tracker
//	<jobid>@<node>.lock  held by flock(2) while a hook works on the job
//	breaker@<node>.json  failures of the Prolog in a row, and running Prologs
//	breaker@<node>.json.<pid>-<start>.well  of a Prolog that did not fail and could not remove its entry
//	node/values          readings of the node that the trackers share; owned by their user
//
// The Epilog removes the job's files. It leaves the exit if the tracker has died, for the
// process that closes the run, and the note too if the tracker keeps running. A later
// Epilog of the node removes files that are no longer needed. A job has at most one run on
// a node at a time, so job and node identify it. The attempt would not: Slurm increments
// it before the Epilog of the attempt that ends.
type State struct {
	Dir string
}

// Note is written by a Prolog for the Epilog.
type Note struct {
	PID      int       `json:"pid"`            // of the tracker
	PIDStart uint64    `json:"pid_start_time"` // field 22 of its /proc/<pid>/stat
	Attempt  uint64    `json:"attempt"`        // SLURM_JOB_RESTART_COUNT at the Prolog
	RunID    string    `json:"run_id"`         // rt.Run.FileStem
	Spool    string    `json:"spool"`          // the run's spool file
	Started  time.Time `json:"started"`        // rt.Run.Start
}

// ReadNote returns the note of the job's tracker on the node. The error is fs.ErrNotExist
// if there is none.
func (s State) ReadNote(job uint64, node string) (Note, error) {
	var n Note
	err := readJSON(s.path(job, node, "json"), &n)
	return n, err
}

func (s State) writeNote(job uint64, node string, n Note) error {
	return writeJSON(s.path(job, node, "json"), n, 0o600)
}

// leftExit is the file of an exit. RunID is Note.RunID: the exit of a requeued job's next
// attempt does not apply to this one.
type leftExit struct {
	rt.Exit
	RunID string `json:"run_id,omitempty"`
}

// ReadExit returns how a run ended according to its job's Epilog on the node; runID is its
// rt.Run.FileStem. The error is fs.ErrNotExist if that Epilog has not run, or if that of
// another run has run since.
func (s State) ReadExit(job uint64, node, runID string) (rt.Exit, error) {
	var e leftExit
	path := s.path(job, node, "exit")
	if err := readJSON(path, &e); err != nil {
		return rt.Exit{}, err
	}
	if e.RunID != "" && e.RunID != runID {
		return rt.Exit{}, fmt.Errorf("%s is that of %s, not of %s: %w", path, e.RunID, runID, fs.ErrNotExist)
	}
	return e.Exit, nil
}

// RemoveExit removes the file of ReadExit; a missing file is no error.
func (s State) RemoveExit(job uint64, node string) error {
	return removeIfThere(s.path(job, node, "exit"))
}

// writeExit writes the exit for the tracker, which is not root and can read it.
func (s State) writeExit(job uint64, node, runID string, e rt.Exit) error {
	return writeJSON(s.path(job, node, "exit"), leftExit{e, runID}, 0o644)
}

func (s State) removeNote(job uint64, node string) error {
	return removeIfThere(s.path(job, node, "json"))
}

// path is the job's file with the given suffix.
func (s State) path(job uint64, node, suffix string) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%d@%s.%s", job, fileName(node), suffix))
}

// create makes the directory, which a reboot removes. Root's hooks write its files, the
// trackers read them.
func (s State) create() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot make tracker.state_dir: %w", err)
	}
	return nil
}

// createShared makes the directory in which the trackers share their readings of the node.
// Their user owns it. Without it each tracker reads the node itself and records that in
// its ledger.
func (s State) createShared(user *User) {
	dir := filepath.Join(s.Dir, "node")
	_ = os.Mkdir(dir, 0o700)
	var now syscall.Stat_t
	if user == nil || syscall.Lstat(dir, &now) != nil || now.Mode&syscall.S_IFMT != syscall.S_IFDIR || now.Uid == user.UID {
		return
	}
	_ = os.Lchown(dir, int(user.UID), int(user.GID)) // also after a hook that was killed before, or a change of spool.user
}

// fileName replaces what is not safe in a path in a node's name.
func fileName(node string) string {
	if len(node) > 128 {
		node = node[:128]
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
			return c
		}
		return '_'
	}, node)
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

// writeJSON replaces the file atomically. It does not sync, because a reboot removes the
// file anyway.
func writeJSON(path string, v any, mode fs.FileMode) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot write %s: %w", path, err), removeIfThere(f.Name()))
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
