package hook

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/internal/procfile"
)

// maxStale limits the files that one Epilog checks, because the node waits for it.
const maxStale = 64

// removeStale removes the notes and exits that are no longer needed: those of runs that
// their trackers, or rt-spool drain, have closed since their own Epilogs. A run that is
// not closed has its lock next to its spool file. The files of this Epilog's job stay.
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

// removeIfStale removes the files of one job, under its lock, if they are no longer
// needed; path is that of the files without their suffixes. It does nothing while another
// hook has the job's lock.
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
