package cgroup

import (
	"cmp"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// search holds the places where the job's directories may appear.
type search struct {
	places []place // candidates that still may be the job's; one, after it was found
	layout string  // of the candidate that was found
	path   string  // the job's directory, in v1 the most important controller's
	best   int     // rank of path's controller

	awaited map[string][]string // names and patterns that are missing or could be more, by their directory
}

// place is a candidate with its paths split.
type place struct {
	layout  string
	version int
	all     []target
	missing []target // those that do not exist
}

func newSearch(candidates []cgroupfs.Candidate) (search, error) {
	if len(candidates) == 0 {
		return search{}, errors.New("watch for the job's cgroup: there is no place where it may appear; is a cgroup hierarchy mounted?")
	}
	s := search{best: len(cgroupfs.ControllersV1) + 1}
	for _, c := range candidates {
		t := targets(c)
		s.places = append(s.places, place{c.Layout, c.Version, t, t})
	}
	return s, nil
}

// Found returns the candidate's layout and the job's directory; for v1 the directory of the
// most important controller that exists. It is false before any directory appeared.
func (w *watcher) Found() (layout, path string, ok bool) {
	return w.search.layout, w.search.path, w.search.path != ""
}

// Look looks for all missing directories, and watches where they can appear. Each is found
// now, or an event follows when it or an element of its path is made. Watches that serve no
// purpose any more are removed.
func (w *watcher) Look() {
	l := &look{wanted: map[string]bool{}, guarded: map[string]bool{}}
	w.search.awaited = map[string][]string{}
	for i := range w.search.places {
		p := &w.search.places[i]
		for _, t := range p.missing {
			dir, ok := w.walk("/", t.elems, l)
			if !ok {
				continue
			}
			if w.search.layout == "" { // the first candidate that is found is the job's
				w.search.layout = p.layout
				w.search.places = []place{*p}
			}
			w.take(&w.search.places[0], t, dir)
			w.Look() // for the others of this candidate alone
			return
		}
	}
	for _, root := range w.roots {
		parent := filepath.Dir(root)
		l.wanted[parent] = true
		w.follow(parent) // again, if it was replaced
	}
	for watched := range w.byPath {
		if !l.wanted[watched] && !w.Covers(watched) {
			w.Unwatch(watched)
		}
	}
}

// LookFor looks again if what was made or removed at path can be a part of the path to a
// missing directory. All jobs of a node come and go in the same directories.
func (w *watcher) LookFor(path string) {
	_, isWatched := w.byPath[path]
	if isWatched || w.search.awaits(path) {
		w.Look()
	}
}

// LookAgain looks for all directories of the chosen candidate again, after the job ended.
func (w *watcher) LookAgain() {
	p := &w.search.places[0]
	p.missing = p.all
	w.search.best = len(cgroupfs.ControllersV1) + 1
	w.Look()
}

// LookForController looks again for the directory of a controller that was removed
// while other controllers have theirs.
func (w *watcher) LookForController(controller string) {
	p := &w.search.places[0]
	p.missing = append(slices.Clone(p.missing), p.target(controller))
}

// IsReadable reports whether the directories that count CPU time and memory exist, if the watcher
// looks for them.
func (w *watcher) IsReadable() bool {
	return !slices.ContainsFunc(w.search.places[0].missing, func(t target) bool {
		return t.controller == "cpuacct" || t.controller == "memory"
	})
}

func (s *search) awaits(name string) bool {
	return slices.ContainsFunc(s.awaited[filepath.Dir(name)], func(pattern string) bool {
		match, _ := path.Match(pattern, filepath.Base(name))
		return match
	})
}

// await records where a walk stopped.
func (s *search) await(dir, name string) {
	if !slices.Contains(s.awaited[dir], name) {
		s.awaited[dir] = append(s.awaited[dir], name)
	}
}

// target returns what is looked for now of a controller.
func (p *place) target(controller string) target {
	return p.all[slices.IndexFunc(p.all, func(t target) bool { return t.controller == controller })]
}

// take adds a directory of the job that was found.
func (w *watcher) take(p *place, t target, dir string) {
	if !w.state.found(p.version, t.controller, dir) {
		return
	}
	p.missing = slices.DeleteFunc(slices.Clone(p.missing), func(m target) bool { return m.controller == t.controller })
	if r := cgroupfs.Rank(t.controller); r < w.search.best {
		w.search.best, w.search.path = r, dir
	}
}

// look is what one Look has watched. The candidates differ in their last elements: without it each
// controller of each candidate would watch the same directories again.
type look struct {
	wanted  map[string]bool // directories whose watch is needed
	guarded map[string]bool // directories with a watch, see guard
}

// walk follows elems down from dir and returns the first directory that they lead to. It watches
// the deepest directories that exist, and their parents, which report their removal.
func (w *watcher) walk(dir string, elems []string, l *look) (string, bool) {
	if len(elems) == 0 {
		return dir, true
	}
	names := elems[:1]
	if !isPattern(elems[0]) && len(elems) > 1 {
		if next, ok := existingDir(filepath.Join(dir, elems[0])); ok {
			return w.walk(next, elems[1:], l)
		}
	}
	w.search.await(dir, elems[0])
	if !w.guard(dir, l) {
		return "", false
	}
	if isPattern(elems[0]) {
		names = matches(dir, elems[0])
	}
	for _, name := range names {
		if next, ok := existingDir(filepath.Join(dir, name)); ok {
			if found, ok := w.walk(next, elems[1:], l); ok {
				return found, true
			}
		}
	}
	return "", false
}

// matches are the names in a directory that a pattern matches, sorted.
func matches(dir, pattern string) (names []string) {
	entries, _ := os.ReadDir(dir) // a directory that was removed has none
	for _, e := range entries {
		if match, _ := path.Match(pattern, e.Name()); match {
			names = append(names, e.Name())
		}
	}
	return names
}

// guard watches dir and its parent, the parent first, so that a later removal causes an event. It
// returns false if one of them was removed before: the caller then starts again.
func (w *watcher) guard(dir string, l *look) bool {
	if l.guarded[dir] {
		return true
	}
	parent := filepath.Dir(dir)
	for _, d := range [...]string{parent, dir, parent} { // is it still the parent?
		l.wanted[d] = true
		if !w.follow(d) {
			return false
		}
	}
	l.guarded[dir] = true
	return true
}

// existingDir returns the path of an existing directory without symbolic links: v1
// controllers that are mounted together are often links to one place.
func existingDir(name string) (string, bool) {
	info, err := os.Lstat(name)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		name, err = filepath.EvalSymlinks(name)
		if err == nil {
			info, err = os.Lstat(name)
		}
	}
	return name, err == nil && info.IsDir()
}

// target is the directory of one controller that is looked for.
type target struct {
	controller string
	elems      []string // of the absolute path
}

// targets returns the directories of c, the important ones first.
func targets(c cgroupfs.Candidate) []target {
	out := make([]target, 0, len(c.Dirs))
	for controller, dir := range c.Dirs {
		out = append(out, target{controller, splitPath(filepath.Clean(dir))})
	}
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(cgroupfs.Rank(a.controller)-cgroupfs.Rank(b.controller), strings.Compare(a.controller, b.controller))
	})
	return out
}

func splitPath(dir string) []string { return strings.Split(strings.TrimPrefix(dir, "/"), "/") }

// isPattern reports whether a path element has to be matched instead of opened.
func isPattern(elem string) bool { return strings.ContainsAny(elem, `*?[\`) }
