package launch

import (
	"cmp"
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
	"github.com/resource-tracker/rt/internal/file"
)

// State is the directory with the files of a job's Prolog and Epilog on a node
// (tracker.state_dir). It is below /run, so that a reboot empties it.
//
//	<jobid>@<node>.json  StateFile: the job's tracker; written by the Prolog, readable by root
//	<jobid>@<node>.exit  rt.Exit: how the job ended; written by the Epilog, for the tracker
//	<jobid>@<node>.lock  held by flock(2) while a hook works on the job
//	sweep.lock           held while an Epilog removes files of other jobs
//	breaker@<node>.json  failures of the Prolog in a row
//	prologs@<node>/      an entry for each Prolog that is starting a tracker
//	node/values          readings of the node that the trackers share; owned by their user
//
// The Epilog removes the job's files. If the tracker has died, the exit stays for the process that
// closes the run. If the tracker keeps running, the state file stays too. A later Epilog of the
// node removes files that are no longer needed.
//
// A job has at most one run on a node at a time, so the files need no attempt in their names.
// Slurm increments the attempt before the Epilog of the attempt that ends.
type State struct {
	Dir string
}

// StateFile is what a Prolog writes for the Epilog.
type StateFile struct {
	PID      int       `json:"pid"`               // of the tracker
	PIDStart uint64    `json:"pid_start_time"`    // field 22 of its /proc/<pid>/stat
	Attempt  uint64    `json:"attempt"`           // SLURM_JOB_RESTART_COUNT at the Prolog
	RunID    string    `json:"run_id"`            // rt.Run.FileStem
	Spool    string    `json:"spool"`             // the run's spool file
	Started  time.Time `json:"started"`           // rt.Run.Start
	Late     bool      `json:"late,omitempty"`    // the Prolog did not wait until it was ready
	Delayed  bool      `json:"delayed,omitempty"` // it is one of many that began at once, see spread

	Stop syscall.Signal `json:"stop_signal,omitempty"` // see stopSignal
}

// stopSignal is the signal that stops the tracker. SIGUSR1 stays pending until a tracker that is
// still starting handles it, see Hook.startProcess. A tracker that an older Prolog has started
// knows only SIGTERM, and that Prolog has written no signal.
func (f StateFile) stopSignal() syscall.Signal { return cmp.Or(f.Stop, syscall.SIGTERM) }

// ReadStateFile returns the state file of the job's tracker on the node. The error is fs.ErrNotExist
// if there is none.
func (s State) ReadStateFile(job uint64, node string) (StateFile, error) {
	var f StateFile
	err := readJSON(s.path(job, node, "json"), &f)
	return f, err
}

func (s State) writeStateFile(job uint64, node string, f StateFile) error {
	return writeJSON(s.path(job, node, "json"), f, 0o600)
}

// leftExit is an exit with the StateFile.RunID of its run, so that it is not used for the job's
// next attempt.
type leftExit struct {
	rt.Exit
	RunID string `json:"run_id,omitempty"`
}

// ReadExit returns how a run ended according to its job's Epilog on the node; runID is its
// rt.Run.FileStem. The error is fs.ErrNotExist if that Epilog has not run, or if another run's
// Epilog has run since.
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

func (s State) removeStateFile(job uint64, node string) error {
	return removeIfThere(s.path(job, node, "json"))
}

// path is the job's file with the given suffix.
func (s State) path(job uint64, node, suffix string) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%d@%s.%s", job, fileName(node), suffix))
}

// create makes the directory: root's hooks write its files, trackers read them. The error of a directory
// that others can change comes from checkOwner.
func (s State) create() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot make tracker.state_dir: %w", err)
	}
	return s.checkOwner()
}

// checkOwner returns an error if a user other than root and the user of this process can write in the
// directory, or can replace it. A hook signals the process that a file there names.
func (s State) checkOwner() error {
	problem, err := file.Foreign(s.Dir)
	if err != nil {
		return fmt.Errorf("cannot check who can write in tracker.state_dir: %w", err)
	}
	if problem != "" {
		return fmt.Errorf("tracker.state_dir %s is not safe: %s; nothing was done, because a hook signals the process that a file there names: give it to root with chown(1) and chmod go-w, or set tracker.state_dir to another directory", s.Dir, problem)
	}
	return nil
}

// createShared makes the directory in which the trackers share their readings of the node. Their
// user owns the directory. Without it each tracker reads the node itself, and notes this in the
// ledger.
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
	text, err := file.ReadSmall(path, file.SmallLimit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any, mode fs.FileMode) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return replaceFile(path, text, mode)
}

// replaceFile replaces the file atomically, without a sync: a reboot removes it anyway. The caller
// has the lock of the file, so the temporary file needs no name of its own. The next hook replaces
// one that a killed hook leaves.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	if err := file.Replace(f, path, append(text, '\n'), mode); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lock excludes other hooks of the job. It fails at the deadline.
func (s State) lock(job uint64, node string, deadline time.Time) (*file.Lock, error) {
	return lockPath(s.path(job, node, "lock"), deadline)
}

func lockPath(path string, deadline time.Time) (*file.Lock, error) {
	for {
		l, err := file.TryLock(path)
		if l != nil {
			return l, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("cannot lock %s: %w", path, errBusy)
		}
		awaitRelease(path, deadline)
	}
}

// awaitRelease waits until the lock at path is released, at most until the deadline. It
// waits in the kernel: when 64 jobs begin at once, hooks that poll would take the CPU from
// the holder. The file that it locks has been removed by its holder then. A link or a FIFO at path
// does not block it.
func awaitRelease(path string, deadline time.Time) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return // it has just been removed, or the next try fails too
	}
	released := make(chan struct{})
	go func() {
		defer func() {
			_ = recover() // a defect here only ends the wait
			close(released)
		}()
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH) // an error comes again at the next try
		_ = f.Close()                                   // opened for reading: nothing can be lost
	}()
	select {
	case <-released:
	case <-time.After(time.Until(deadline)):
	}
}
