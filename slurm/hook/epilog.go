package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// Epilog hands the tracker of the run's job the exit information, tells
// it to stop and waits until it has, at most StopTimeout. Where no Prolog ran, and when it is run again, there is nothing to do.
// The error is for the log, as with Prolog; that the tracker was dead when its
// Epilog came is one. While the tracker lives on, or has died without closing its
// run, the note and the exit stay: for the tracker, for whoever closes the run in
// its place, and then until a later Epilog of the node, the job's next Prolog or a reboot.
func (h *Hook) Epilog(run rt.Run, exit rt.Exit) (err error) {
	job, node := run.JobID.Or(0), run.Node
	defer func() { err = errors.Join(err, h.sweep(job, node)) }()
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
		return nil // another Epilog did it meanwhile
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot tell the tracker that the job has ended: %w", err), h.State.removeNote(job, node))
	}
	return h.stop(job, node, note, exit, deadline)
}

// lock is the file beside the spool file that a tracker removes when it has closed
// its run: what was not removed belongs to one that was killed or gave up.
func (n Note) lock() string { return filepath.Join(filepath.Dir(n.Spool), n.RunID+".lock") }

// stop ends the tracker that the note names.
func (h *Hook) stop(job uint64, node string, note Note, exit rt.Exit, deadline time.Time) error {
	if err := h.State.writeExit(job, node, note.RunID, exit); err != nil {
		return err
	}
	p, err := findProcess(h.ProcRoot, note.PID, note.PIDStart)
	if errors.Is(err, os.ErrProcessDone) {
		if !exists(note.lock()) { // it has closed its run: this Epilog came after the tracker's grace time
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
		return fmt.Errorf("the tracker (process %d) has not ended within %s of its SIGTERM; it is left to end by itself, as when it waits for a full disk", note.PID, h.StopTimeout)
	}
	if _, err := os.Lstat(note.lock()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the tracker (process %d) has not closed its run: %s is left; how the job ended is kept for rt-spool drain, which closes the run", note.PID, note.lock())
	}
	return errors.Join(h.State.removeNote(job, node), h.State.RemoveExit(job, node))
}
