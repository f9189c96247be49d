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

// sweepMax bounds what one Epilog looks at: the node waits for it.
const sweepMax = 64

// sweep removes the notes and exits that nobody needs any more: those of runs that
// their trackers, or rt-spool drain in their place, have closed since their own
// Epilogs. A run that is not closed has its lock's file beside its spool file. The
// job whose Epilog this is keeps what it has.
func (h *Hook) sweep(job uint64, node string) error {
	files, err := os.ReadDir(h.State.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	own := strings.TrimSuffix(filepath.Base(h.State.path(job, node, "")), ".")
	var errs []error
	seen := 0
	for _, f := range files {
		stem, suffix := cutSuffix(f.Name())
		if stem == own || strings.HasPrefix(stem, "breaker@") || suffix != "json" && suffix != "exit" {
			continue
		}
		if seen++; seen > sweepMax {
			break
		}
		errs = append(errs, h.sweepJob(filepath.Join(h.State.Dir, stem)))
	}
	return errors.Join(errs...)
}

// cutSuffix splits a name at its last dot: that of a node may have others.
func cutSuffix(name string) (stem, suffix string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}

// sweepJob removes what is left of one job, under its lock; path is that of its
// files without their suffixes. While another hook works on the job it does nothing.
func (h *Hook) sweepJob(path string) error {
	lock, err := tryLock(path + ".lock")
	if lock == nil {
		return err
	}
	return errors.Join(h.sweepLocked(path), lock.release())
}

func (h *Hook) sweepLocked(path string) error {
	var note Note
	switch err := readJSON(path+".json", &note); {
	case err == nil:
		if procfile.Alive(h.ProcRoot, note.PID, note.PIDStart) || exists(note.lock()) {
			return nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil // the job's own Epilog tells of it and removes it
	default:
		var exit leftExit
		if err := readJSON(path+".exit", &exit); err != nil || exit.RunID == "" ||
			exists(Note{RunID: exit.RunID, Spool: filepath.Join(h.SpoolDir, exit.RunID+".db")}.lock()) {
			return nil
		}
	}
	return errors.Join(removeIfThere(path+".json"), removeIfThere(path+".exit"))
}

// exists is true where that cannot be known.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
