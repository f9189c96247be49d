package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Epilog writes the exit for the tracker of the run's job, sends the tracker SIGTERM and
// waits until it has ended, at most StopTimeout. It does nothing if no Prolog ran or if it
// is repeated. The error is for the log, as in Prolog; a tracker that has died before is
// one. If the tracker keeps running or has died without closing its run, the note and the
// exit stay for the process that closes the run. A later Epilog of the node, the job's next
// Prolog or a reboot removes them.
func (h *Hook) Epilog(run rt.Run, exit rt.Exit) (err error) {
	job, node := run.JobID.Or(0), run.Node
	defer func() { err = errors.Join(err, h.removeStale(job, node)) }()
	if _, err := h.State.ReadNote(job, node); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	deadline := time.Now().Add(h.StopTimeout)
	lock, err := h.State.lock(job, node, deadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()

	note, err := h.State.ReadNote(job, node)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another Epilog has done it
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot find the tracker of the job: %w", err), h.State.removeNote(job, node))
	}
	return h.stop(job, node, note, exit, deadline)
}

// lock is the path of the lock next to the spool file, which a tracker removes when it has
// closed its run. A lock of a tracker that has ended means that the run is not closed.
func (n Note) lock() string { return filepath.Join(filepath.Dir(n.Spool), n.RunID+".lock") }

// stop ends the tracker that the note names.
func (h *Hook) stop(job uint64, node string, note Note, exit rt.Exit, deadline time.Time) error {
	if err := h.State.writeExit(job, node, note.RunID, exit); err != nil {
		return err
	}
	p, err := findProcess(h.ProcRoot, note.PID, note.PIDStart)
	if errors.Is(err, os.ErrProcessDone) {
		if !exists(note.lock()) { // it closed its run when its grace time was over, before this Epilog
			return errors.Join(h.State.removeNote(job, node), h.State.RemoveExit(job, node))
		}
		gone := fmt.Errorf("the tracker (process %d) was gone before the job's Epilog; what it had committed is in %s, and rt-spool drain closes the run", note.PID, note.Spool)
		return errors.Join(gone, h.State.removeNote(job, node))
	}
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop the tracker: %w", err)
	}
	if !p.waitGone(deadline) {
		return fmt.Errorf("the tracker (process %d) has not ended within %s of its SIGTERM, for example because it waits for a full disk; it keeps running", note.PID, h.StopTimeout)
	}
	if _, err := os.Lstat(note.lock()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the tracker (process %d) has not closed its run: %s exists; rt-spool drain closes the run with the exit of this Epilog", note.PID, note.lock())
	}
	return errors.Join(h.State.removeNote(job, node), h.State.RemoveExit(job, node))
}

// maxStale limits the files that one Epilog checks, because the node waits for it.
const maxStale = 64

// removeStale removes the notes and exits of other jobs if their runs are closed: a run that is
// not closed has its lock next to its spool file.
func (h *Hook) removeStale(job uint64, node string) error {
	files, err := os.ReadDir(h.State.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	own := strings.TrimSuffix(filepath.Base(h.State.path(job, node, "")), ".")
	var errs []error
	for _, f := range files {
		stem, suffix := cutSuffix(f.Name())
		isOfJob := !strings.HasPrefix(stem, "breaker@") && (suffix == "json" || suffix == "exit")
		if stem == own || !isOfJob {
			continue
		}
		if len(errs) == maxStale {
			break
		}
		errs = append(errs, h.removeIfStale(filepath.Join(h.State.Dir, stem)))
	}
	return errors.Join(errs...)
}

// cutSuffix splits a name at its last dot: the name of a node may have others.
func cutSuffix(name string) (stem, suffix string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}

// removeIfStale removes the files of one job if they are no longer needed and no hook has the
// job's lock; path is that of the files without their suffixes.
func (h *Hook) removeIfStale(path string) error {
	lock, err := tryLock(path + ".lock")
	if lock == nil {
		return err
	}
	if !h.isNeeded(path) {
		err = errors.Join(removeIfThere(path+".json"), removeIfThere(path+".exit"))
	}
	return errors.Join(err, lock.release())
}

// isNeeded reports whether a process may still read the job's files.
func (h *Hook) isNeeded(path string) bool {
	var note Note
	err := readJSON(path+".json", &note)
	if err == nil {
		return procfile.Alive(h.ProcRoot, note.PID, note.PIDStart) || exists(note.lock())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return true // the job's own Epilog reports the damaged note and removes it
	}
	var exit leftExit
	if err := readJSON(path+".exit", &exit); err != nil || exit.RunID == "" {
		return true
	}
	return exists(Note{RunID: exit.RunID, Spool: filepath.Join(h.SpoolDir, exit.RunID+".db")}.lock())
}

// exists is also true if the file cannot be checked.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
