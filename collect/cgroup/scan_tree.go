package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// maxDepth is how far below the job's directory its tree is followed:
// step_0/user/task_0 in Slurm's v2 layout. A job may make more groups below a task.
const maxDepth = 4

// watcher finds the job's directories, and watches all directories in them. It calls state.enter
// for each new directory. Within that call, Scan is the only method that may look for more.
type watcher struct {
	*notifier
	search search
	roots  []string               // the job's directories
	dirs   map[string]*watchedDir // all that were entered, by their paths
	state  *state
}

// watchedDir is one directory.
type watchedDir struct {
	wd   int32 // its watch; 0 if it could not be watched
	held int   // without a watch: a descriptor, which keeps the inode number in use; -1 for none
}

// newWatcher returns a watcher that has not looked yet. The first candidate that exists is the
// job's directory. newWatcher fails if there is no candidate.
func newWatcher(candidates []cgroupfs.Candidate, s *state) (*watcher, error) {
	places, err := newSearch(candidates)
	if err != nil {
		return nil, err
	}
	n, err := newNotifier()
	if err != nil {
		return nil, err
	}
	return &watcher{notifier: n, search: places, dirs: map[string]*watchedDir{}, state: s}, nil
}

// Roots returns the job's directories that AddRoot has entered.
func (w *watcher) Roots() []string { return w.roots }

// AddRoot enters a directory of the job and all directories below it. It returns false if the
// directory was removed meanwhile.
func (w *watcher) AddRoot(dir string) bool {
	if !slices.Contains(w.roots, dir) {
		w.roots = append(w.roots, dir)
	}
	w.Scan(dir, dir)
	w.follow(filepath.Dir(dir)) // the parent may have been replaced during the scan
	if w.dirs[dir] == nil {
		w.roots = slices.DeleteFunc(w.roots, func(r string) bool { return r == dir })
		return false
	}
	return true
}

// Scan enters dir, below root, and the directories below it. It first adds the watch, so that a
// directory that is created later causes an event. Then it lists the directories that exist.
func (w *watcher) Scan(root, dir string) {
	if !w.follow(dir) {
		return
	}
	wd := w.byPath[dir] // 0 if there are no more watches
	d := w.dirs[dir]
	switch {
	case d == nil:
		d = &watchedDir{wd: wd, held: -1}
		if wd == 0 {
			d.hold(dir)
		}
		w.dirs[dir] = d
		w.state.enter(root, dir)
	case wd != 0 && d.wd != wd:
		if d.wd != 0 || !d.isAt(dir) { // the directory that was known at that path is gone
			w.replaced = true
			return
		}
		d.wd = wd
	}
	if strings.Count(dir[len(root):], "/") >= maxDepth {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.state.watchFailed(err, false)
	}
	for _, e := range entries {
		if e.IsDir() {
			w.Scan(root, filepath.Join(dir, e.Name()))
		}
	}
}

// IsKnown reports whether a directory was entered.
func (w *watcher) IsKnown(path string) bool { return w.dirs[path] != nil }

// RootOf returns the job's directory that contains path.
func (w *watcher) RootOf(path string) (root string, ok bool) {
	i := slices.IndexFunc(w.roots, func(r string) bool { return cgroupfs.IsBelow(path, r) })
	if i < 0 {
		return "", false
	}
	return w.roots[i], true
}

// Covers reports whether path is in one of the job's directories.
func (w *watcher) Covers(path string) bool {
	_, ok := w.RootOf(path)
	return ok
}

// Exists reports whether the directory at path exists and, if one was entered at path, is still the
// same directory.
func (w *watcher) Exists(path string) bool {
	d := w.dirs[path]
	switch {
	case d == nil:
		_, ok := existingDir(path)
		return ok
	case d.wd == 0:
		return d.isAt(path)
	}
	return w.isSame(path, d.wd)
}

// Below returns the directories that were entered in root, children before their parents.
func (w *watcher) Below(root string) (paths []string) {
	for path := range w.dirs {
		if cgroupfs.IsBelow(path, root) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	slices.Reverse(paths)
	return paths
}

// Remove forgets the directory at path and all below it, which may be a root.
func (w *watcher) Remove(path string) {
	for at, d := range w.dirs {
		if cgroupfs.IsBelow(at, path) {
			d.release()
			delete(w.dirs, at)
		}
	}
	for watched := range w.byPath {
		if cgroupfs.IsBelow(watched, path) {
			w.Unwatch(watched)
		}
	}
	w.roots = slices.DeleteFunc(w.roots, func(r string) bool { return r == path })
}

// FollowParent watches the parent of a directory again: the removal of a directory is an event of
// its parent.
func (w *watcher) FollowParent(dir string) { w.follow(filepath.Dir(dir)) }

// TakeReplaced reports whether a directory was replaced since the last call. The caller must then
// compare all directories with those that exist.
func (w *watcher) TakeReplaced() bool {
	was := w.replaced
	w.replaced = false
	return was
}

// Close closes all descriptors.
func (w *watcher) Close() error {
	for _, d := range w.dirs {
		d.release()
	}
	w.dirs, w.roots = nil, nil
	return w.notifier.Close()
}

// follow watches a directory. It returns false if the directory was removed.
func (w *watcher) follow(dir string) bool {
	ok, err := w.watch(dir, dirMask)
	if err != nil {
		w.state.watchFailed(err, true)
	}
	if !ok && err == nil {
		w.replaced = true
		return false
	}
	return true
}

// hold opens a directory. Until it is closed, no other directory gets its inode number. O_PATH needs
// no right to read the directory.
func (d *watchedDir) hold(dir string) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		d.held = fd
	}
}

// isAt reports whether the held directory is at path. If none could be held, any directory at path
// counts.
func (d *watchedDir) isAt(path string) bool {
	var now, held unix.Stat_t
	if err := unix.Stat(path, &now); err != nil {
		return false
	}
	if d.held < 0 || unix.Fstat(d.held, &held) != nil {
		return true
	}
	return now.Ino == held.Ino && now.Dev == held.Dev
}

func (d *watchedDir) release() {
	if d.held >= 0 {
		_ = unix.Close(d.held)
	}
	d.held = -1
}
