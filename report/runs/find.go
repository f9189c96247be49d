// Package runs finds, lists and checks the runs of spool directories on this machine, for the
// programs that show runs. It also reads the figures of all of them, for a list of jobs. Reading a
// file takes milliseconds, so an index caches the figures of runs that have ended. Only files that
// are new or have changed are read.
package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/spool"
)

// ErrDamaged marks the error of an operation on several files, some of them damaged.
var ErrDamaged = errors.New("damaged")

// Find returns the runs of the jobs in all directories, or all runs if none is named. Of a job that is
// in no directory it returns the error of the first one, also if that may not be read.
func Find(dirs, jobs []string) ([]spool.Entry, error) {
	if len(jobs) == 0 {
		return listAll(dirs)
	}
	var out []spool.Entry
	for _, job := range jobs {
		found, err := findJob(dirs, job)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func listAll(dirs []string) ([]spool.Entry, error) {
	var out []spool.Entry
	for _, dir := range dirs {
		entries, err := spool.List(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	return out, nil
}

func findJob(dirs []string, job string) ([]spool.Entry, error) {
	if IsFile(job) {
		return spool.FindJob(dirs[0], job)
	}
	var out []spool.Entry
	var missing error
	for _, dir := range dirs {
		found, err := findIn(dir, job)
		switch {
		case errors.Is(err, spool.ErrNotFound), IsDenied(err): // the others may have it
			missing = cmp.Or(missing, err)
		case err != nil:
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, missing
	}
	return out, nil
}

// findIn returns the runs of a JOB in one directory. If it finds none and there are files that this user may not
// read, the error names the files: the run may be in one.
func findIn(dir, job string) ([]spool.Entry, error) {
	found, err := spool.FindJob(dir, job)
	if !errors.Is(err, spool.ErrNotFound) {
		return found, err
	}
	entries, listErr := spool.List(dir)
	if listErr != nil {
		return nil, err
	}
	var denied []error
	for i := range entries {
		if IsDenied(entries[i].Err) {
			denied = append(denied, entries[i].Err)
		}
	}
	if len(denied) == 0 {
		return nil, err
	}
	denial := errkind.With(fs.ErrPermission, Unreadable(denied, len(entries)))
	return nil, errkind.With(spool.ErrNotFound, fmt.Errorf("job %q in %s is none of the runs that can be read: %w", job, dir, denial))
}

// OnNode returns the runs of a job on a node; all of them for an empty node.
func OnNode(entries []spool.Entry, job, node string) ([]spool.Entry, error) {
	if node == "" {
		return entries, nil
	}
	entries = slices.DeleteFunc(entries, func(e spool.Entry) bool { return e.Run.Node != node })
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: %s on node %s", spool.ErrNotFound, job, node)
	}
	return entries, nil
}

// Paths returns the paths of the files of runs.
func Paths(entries []spool.Entry) (paths []string) {
	for i := range entries {
		paths = append(paths, entries[i].Path)
	}
	return paths
}

// IsFile reports whether a JOB argument is the path of a file.
func IsFile(job string) bool {
	return strings.HasSuffix(job, ".db") || strings.ContainsRune(job, filepath.Separator)
}

// CheckExists returns an error if a spool directory does not exist, unless all jobs are paths of files.
func CheckExists(dir string, jobs ...string) error {
	if len(jobs) > 0 && !slices.ContainsFunc(jobs, func(job string) bool { return !IsFile(job) }) {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return errkind.With(err, fmt.Errorf("there is no spool directory %s: --spool DIR names another one, and a user's own is ~/.local/state/rt", dir))
	}
	return nil
}

// CheckOwner returns an error if root works on a directory that belongs to neither root nor
// the user spool.user. The owner of the directory can write any run and any registration into it, which root
// would deliver with the token of the site. The owner can also replace its files at any time.
func CheckOwner(dir, spoolUser string) error {
	st, err := os.Stat(dir)
	if os.Geteuid() != 0 || errors.Is(err, fs.ErrNotExist) {
		return nil // CheckExists reports a missing one
	}
	if err != nil {
		return fmt.Errorf("the spool directory: %w", err)
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	uid := strconv.FormatUint(uint64(owner.Uid), 10)
	if u, err := user.Lookup(spoolUser); err == nil && u.Uid == uid {
		return nil
	}
	return fmt.Errorf("%s belongs to uid %s, neither to root nor to spool.user (%s): root does not deliver or remove runs of other users; run rt-spool as uid %s, or make it the site's own with chown -R %s %s",
		dir, uid, spoolUser, uid, spoolUser, dir)
}

// IsDenied reports whether this user may not read a file.
func IsDenied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// IsOfOthers reports whether a file is denied to this user, who is not expected to read it. The owner of a spool is.
func IsOfOthers(err error) bool { return IsDenied(err) && !spool.IsIntact(err) }

// Unreadable returns the error of files that are damaged or that this user may not read; of is the
// number of all files.
func Unreadable(bad []error, of int) error {
	denied, intact := 0, 0
	for _, err := range bad {
		switch {
		case IsOfOthers(err):
			denied++
		case spool.IsIntact(err):
			intact++
		}
	}
	switch {
	case len(bad) == 0:
		return nil
	case denied+intact == len(bad) && intact > 0:
		return fmt.Errorf("%d of %d files cannot be read by this version of rt, or not now, the first because of this: %w", len(bad), of, bad[0])
	case denied == len(bad):
		return fmt.Errorf("%d of %d files may not be read by this user: spool.access in rt.toml says who may", denied, of)
	}
	return fmt.Errorf("%w: %d of %d files cannot be read", ErrDamaged, len(bad), of)
}
