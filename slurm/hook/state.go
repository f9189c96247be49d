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

// State is the directory in which the Prolog and the Epilog of a job on a node
// find each other's notes (tracker.state_dir). It lies below /run, so that a
// reboot empties it.
//
//	<jobid>@<node>.json  Note: the job's tracker; written by the Prolog, for root
//	<jobid>@<node>.exit  rt.Exit: how the job ended; written by the Epilog, for the tracker
//	<jobid>@<node>.lock  held by flock(2) while a hook works on the job
//	breaker@<node>.json  failures of the Prolog in a row, and Prologs at work
//	breaker@<node>.json.<pid>-<start>.well  of a Prolog at work that ended well and could not sign out
//	node/values          what one tracker read of the node, for the others; the trackers'
//
// The Epilog removes the job's files, but leaves the exit where the tracker had
// died, for whoever closes the run, and both where the tracker lives on; what nobody
// needs any more goes with a later Epilog of the node. A job has at most one run on a node at a time,
// which is why the pair of job and node names it, and not the attempt: Slurm
// counts that up before the Epilog of the attempt that ends.
type State struct {
	Dir string
}

// Note is what a Prolog leaves for the Epilog.
type Note struct {
	PID      int       `json:"pid"`            // of the tracker
	PIDStart uint64    `json:"pid_start_time"` // field 22 of its /proc/<pid>/stat
	Attempt  uint64    `json:"attempt"`        // SLURM_JOB_RESTART_COUNT at the Prolog
	RunID    string    `json:"run_id"`         // rt.Run.FileStem
	Spool    string    `json:"spool"`          // the run's spool file
	Started  time.Time `json:"started"`        // rt.Run.Start
}

// ReadNote returns the note of the job's tracker on the node. Where there is none
// the error is fs.ErrNotExist.
func (s State) ReadNote(job uint64, node string) (Note, error) {
	var n Note
	err := readJSON(s.path(job, node, "json"), &n)
	return n, err
}

func (s State) writeNote(job uint64, node string, n Note) error {
	return writeJSON(s.path(job, node, "json"), n, 0o600)
}

// leftExit is the file of an exit. RunID is Note.RunID: of an attempt that was
// requeued nobody must take the exit of the next for its own.
type leftExit struct {
	rt.Exit
	RunID string `json:"run_id,omitempty"`
}

// ReadExit returns how a run ended, as its job's Epilog on the node said; runID is
// its rt.Run.FileStem. Where that Epilog has not come, or another run's has since,
// the error is fs.ErrNotExist.
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

// RemoveExit removes what ReadExit reads; nothing to remove is no error.
func (s State) RemoveExit(job uint64, node string) error {
	return removeIfThere(s.path(job, node, "exit"))
}

// writeExit leaves the exit for the tracker, which is not root and may read it.
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

// create makes the directory where a reboot has removed it. Only root's hooks
// write into it; the trackers read.
func (s State) create() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot make tracker.state_dir: %w", err)
	}
	return nil
}

// createShared makes the directory in which trackers share what they read of the
// node. It is theirs; where it cannot be made, each reads the node by itself and
// its ledger says so.
func (s State) createShared(user *User) {
	dir := filepath.Join(s.Dir, "node")
	_ = os.Mkdir(dir, 0o700)
	var now syscall.Stat_t
	if user == nil || syscall.Lstat(dir, &now) != nil || now.Mode&syscall.S_IFMT != syscall.S_IFDIR || now.Uid == user.UID {
		return
	}
	_ = os.Lchown(dir, int(user.UID), int(user.GID)) // also where a hook was killed before it could, or spool.user is another one
}

// fileName makes a node's name safe in a path.
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

// writeJSON replaces the file as a whole: a reader sees the old one or the new one.
// It does not wait for the disk, because nothing there outlives a reboot.
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
