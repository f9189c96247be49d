package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Epilog writes the exit for the tracker of the run's job and stops the tracker. It waits until the
// tracker has closed its run or has ended, at most StopTimeout. It does nothing if no Prolog ran or
// if an earlier Epilog did this. The error is only for the log, as in Prolog. A tracker that died
// before the Epilog is an error.
//
// If the tracker keeps running, or died without closing its run, the job's exit and state stay.
// They are for the process that closes the run. A later Epilog of the node, the job's next Prolog
// or a reboot removes them.
func (h *Hook) Epilog(run rt.Run, exit rt.Exit) (err error) {
	job, node := run.JobID.Or(0), run.Node
	err = h.State.checkOwner()
	if errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.removeStale(job, node)) }()
	if _, err := h.State.ReadStateFile(job, node); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	deadline := time.Now().Add(h.StopTimeout)
	lock, err := h.State.lock(job, node, deadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()

	state, err := h.State.ReadStateFile(job, node)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another Epilog has done it
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot find the tracker of the job: %w", err), h.State.removeStateFile(job, node))
	}
	err = h.stop(job, node, state, exit, deadline)
	if state.Late {
		return h.judgeLate(node, state, err, run.Start)
	}
	return err
}

var (
	// errGone means that the tracker has ended before the Epilog and did not close its run.
	errGone = errors.New("was gone before the job's Epilog")
	// errRunning means that the tracker did not end in time.
	errRunning = errors.New("it keeps running")
)

// judgeLate counts a tracker that was late in the Prolog as a success or a failure, see breaker. A
// tracker writes a run even if the Epilog stops it before it begins. A tracker that keeps running
// is only slow if it has a run, or if many trackers began at once. Otherwise it may hang or be
// slow. This counts as a failure with a short pause.
func (h *Hook) judgeLate(node string, state StateFile, stopped error, now time.Time) error {
	b := h.breaker(node)
	hasBegun := exists(state.Spool)
	isSlow := hasBegun || state.Delayed
	switch {
	case errors.Is(stopped, errRunning) && isSlow:
		return stopped
	case stopped == nil && hasBegun:
		return b.close()
	case stopped == nil:
		stopped = fmt.Errorf("the tracker (process %d) was late and has ended without a run; an error of rt-tracker in the log has the cause", state.PID)
	}
	opened, err := b.count(1, stopped, now, errors.Is(stopped, errRunning))
	if opened != nil {
		stopped = opened
	}
	return errors.Join(stopped, err)
}

// lock is the path of the lock next to the spool file, which a tracker removes when it has
// closed its run. A lock of a tracker that has ended means that the run is not closed.
func (f StateFile) lock() string { return filepath.Join(filepath.Dir(f.Spool), f.RunID+".lock") }

// isClosed reports whether the tracker has closed its run. A late tracker may have ended
// before it began one.
func (f StateFile) isClosed() bool {
	hasBegun := !f.Late || exists(f.Spool)
	return hasBegun && !exists(f.lock())
}

// stop ends the tracker that the state file names.
func (h *Hook) stop(job uint64, node string, state StateFile, exit rt.Exit, deadline time.Time) error {
	hasBegun := exists(state.lock())
	if err := h.State.writeExit(job, node, state.RunID, exit); err != nil {
		return err
	}
	p, err := findProcess(h.ProcRoot, state.PID, state.PIDStart)
	if errors.Is(err, os.ErrProcessDone) {
		if state.isClosed() { // when its grace time was over, before this Epilog
			return errors.Join(h.State.removeStateFile(job, node), h.State.RemoveExit(job, node))
		}
		gone := fmt.Errorf("the tracker (process %d) %w; what it had committed is in %s, and rt-spool drain closes the run", state.PID, errGone, state.Spool)
		return errors.Join(gone, h.State.removeStateFile(job, node))
	}
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.stop(state.stopSignal()); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop the tracker: %w", err)
	}
	// The tracker ends some 15 ms after the end of the run: the kernel closes its inotify
	// descriptor.
	if hasBegun {
		awaitRelease(state.lock(), deadline)
	}
	isClosed := hasBegun && !exists(state.lock())
	if !isClosed && !p.waitGone(deadline) {
		return fmt.Errorf("the tracker (process %d) has not ended within %s of its %s, for example because it waits for a full disk; %w", state.PID, h.StopTimeout, unix.SignalName(state.stopSignal()), errRunning)
	}
	if _, err := os.Lstat(state.lock()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the tracker (process %d) has not closed its run: %s exists; rt-spool drain closes the run with the exit of this Epilog", state.PID, state.lock())
	}
	return errors.Join(h.State.removeStateFile(job, node), h.State.RemoveExit(job, node))
}

// sweepLock is the lock file of the one Epilog that checks the files of other jobs.
const sweepLock = "sweep.lock"

// maxStale limits the files of other jobs that one Epilog checks, because the node waits for it.
const maxStale = 32

// hookAge is the age from which on a lock or temporary file is left by a killed hook. No hook works
// as long.
const hookAge = 5 * time.Minute

// removeStale removes what killed hooks have left, and the state files and exits of closed runs. A
// run that is not closed has a lock file next to its spool file. Only one Epilog at a time checks
// the files of other jobs, because hundreds would block each other's job locks. removeStale does
// not take the lock of a hook that may be working. On a very busy node that hook would give up, and
// the tracker would get no signal.
func (h *Hook) removeStale(job uint64, node string) (err error) {
	files, err := os.ReadDir(h.State.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	own := strings.TrimSuffix(h.State.path(job, node, ""), ".")
	errs := []error{h.removeIfStale(own)}
	sweep, err := file.TryLock(filepath.Join(h.State.Dir, sweepLock))
	if sweep == nil {
		return errors.Join(append(errs, err)...)
	}
	defer func() { err = errors.Join(err, sweep.Release()) }()
	for i := range min(len(files), maxStale) { // each job begins with another file, because the first ones may all be needed
		f := files[(job+uint64(i))%uint64(len(files))]
		stem, suffix := cutSuffix(f.Name())
		if suffix == "tmp" && !strings.HasPrefix(stem, "breaker@") {
			stem, _ = cutSuffix(stem) // 12@n1.json.tmp
		}
		path := filepath.Join(h.State.Dir, stem)
		hasData := suffix == "json" || suffix == "exit"
		isLeft := (suffix == "lock" || suffix == "tmp") && isOlder(f, hookAge)
		switch {
		case path == own, f.IsDir():
		case strings.HasPrefix(stem, "breaker@"):
			if isLeft {
				errs = append(errs, removeLeft(filepath.Join(h.State.Dir, stem)))
			}
		case isLeft, hasData && !h.isNeeded(path):
			errs = append(errs, h.removeIfStale(path))
		}
	}
	return errors.Join(errs...)
}

func isOlder(f fs.DirEntry, age time.Duration) bool {
	info, err := f.Info()
	return err == nil && time.Since(info.ModTime()) > age
}

// cutSuffix splits a name at its last dot: the name of a node may have others.
func cutSuffix(name string) (stem, suffix string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}

// removeLeft removes what a killed hook has left when it changed the breaker's file.
func removeLeft(path string) error {
	lock, err := file.TryLock(path + ".lock")
	if lock == nil {
		return err
	}
	return errors.Join(removeIfThere(path+".tmp"), lock.Release())
}

// removeIfStale removes the files of one job if no process needs them and no hook has the job's
// lock. path is the path of the files without suffix.
func (h *Hook) removeIfStale(path string) error {
	lock, err := file.TryLock(path + ".lock")
	if lock == nil {
		return err
	}
	err = errors.Join(removeIfThere(path+".json.tmp"), removeIfThere(path+".exit.tmp"))
	if !h.isNeeded(path) {
		err = errors.Join(err, removeIfThere(path+".json"), removeIfThere(path+".exit"))
	}
	return errors.Join(err, lock.Release())
}

// isNeeded reports whether a process may still read the job's files. The state file of a late tracker
// that has ended without a run is for the job's own Epilog, which writes the exit.
func (h *Hook) isNeeded(path string) bool {
	var state StateFile
	err := readJSON(path+".json", &state)
	if err == nil {
		isForEpilog := state.Late && !exists(state.Spool) && !exists(path+".exit")
		return isForEpilog || procfile.Alive(h.ProcRoot, state.PID, state.PIDStart) || exists(state.lock())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return true // the job's own Epilog reports the damaged state file and removes it
	}
	var exit leftExit
	if err := readJSON(path+".exit", &exit); err != nil || exit.RunID == "" {
		return true
	}
	return exists(StateFile{RunID: exit.RunID, Spool: filepath.Join(h.SpoolDir, exit.RunID+".db")}.lock())
}

// exists is also true if the file cannot be checked.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
