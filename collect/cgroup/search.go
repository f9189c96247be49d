package cgroup

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// search is where the job's directories may appear.
type search struct {
	open   []place // candidates that still may be the job's; one, once it was found
	layout string  // of the candidate that was found
	path   string  // the job's directory, the most important of v1
	best   int     // rank of path's controller

	awaited map[string][]string // names, some with wildcards, that are missing or could be more, by their directory
}

// place is a candidate with its directories taken apart.
type place struct {
	layout  string
	version int
	all     []target // as asked for, patterns bound once one was found
	missing []target // those that are not there
}

var errNoCandidate = errors.New("watch for the job's cgroup: there is no place where it may appear; is any cgroup hierarchy mounted?")

func newSearch(candidates []cgroupfs.Candidate) (search, error) {
	if len(candidates) == 0 {
		return search{}, errNoCandidate
	}
	s := search{best: len(v1Order) + 1}
	for _, c := range candidates {
		t, err := targets(c)
		if err != nil {
			return search{}, err
		}
		s.open = append(s.open, place{c.Layout, c.Version, t, t})
	}
	return s, nil
}

// look looks for all directories that are missing, and watches where they can
// appear: each is found now, or there will be an event when it or the way to it is
// made. Watches that serve nothing any more are taken away.
func (j *Job) look() {
	wanted := map[string]bool{}
	j.search.awaited = map[string][]string{}
	for i := range j.search.open {
		p := &j.search.open[i]
		for _, t := range p.missing {
			dir, ok := j.walk("/", p.bound(t.controller), wanted)
			if !ok {
				continue
			}
			if j.search.layout == "" { // the first one wins
				j.search.layout = p.layout
				j.search.open = []place{*p}
			}
			j.found(&j.search.open[0], t, dir)
			j.look() // for the others of this candidate alone
			return
		}
	}
	for _, t := range j.trees {
		parent := filepath.Dir(t.dir)
		wanted[parent] = true
		j.follow(parent) // again, where it was replaced
	}
	for watched := range j.notify.byPath {
		if !wanted[watched] && !j.covers(watched) {
			j.notify.unwatch(watched)
		}
	}
}

// lookFor looks again where what was made or removed at path can be on the way to a
// missing directory. All jobs of a node come and go in the same directories.
func (j *Job) lookFor(path string) {
	if _, watched := j.notify.byPath[path]; watched || j.search.awaits(path) {
		j.look()
	}
}

func (s *search) awaits(name string) bool {
	return slices.ContainsFunc(s.awaited[filepath.Dir(name)], func(pattern string) bool {
		match, _ := path.Match(pattern, filepath.Base(name))
		return match
	})
}

// await takes note of what a walk has stopped at.
func (s *search) await(dir, name string) {
	if !slices.Contains(s.awaited[dir], name) {
		s.awaited[dir] = append(s.awaited[dir], name)
	}
}

// bound returns the path elements under which a controller is looked for now.
func (p *place) bound(controller string) []string {
	i := slices.IndexFunc(p.all, func(t target) bool { return t.controller == controller })
	return p.all[i].elems
}

// found takes a directory of the job in.
func (j *Job) found(p *place, t target, dir string) {
	if j.reader == nil {
		if p.version == 2 {
			j.reader = newV2Reader(j.skip, j.procRoot)
		} else {
			j.reader = &v1Reader{skip: j.skip}
		}
	}
	if !j.addTree(t.controller, dir) {
		return
	}
	p.missing = slices.DeleteFunc(slices.Clone(p.missing), func(m target) bool { return m.controller == t.controller })
	if found := splitPath(dir); len(found) == len(t.elems) {
		all := slices.Clone(p.all)
		bound := bindings(p.bound(t.controller), found)
		for i := range all {
			if len(bound) > 0 {
				all[i].elems = bind(all[i].elems, bound)
			}
		}
		p.all = all
	}
	if r := rank(t.controller); r < j.search.best {
		j.search.best, j.search.path = r, dir
	}
}

func splitPath(dir string) []string {
	return strings.Split(strings.TrimPrefix(dir, "/"), "/")
}

// walk follows elems down from dir and returns the first directory that they lead
// to. On its way it watches the deepest directories that exist, and their parents,
// from which their own removal is learned.
func (j *Job) walk(dir string, elems []string, wanted map[string]bool) (string, bool) {
	if len(elems) == 0 {
		return dir, true
	}
	if !isPattern(elems[0]) {
		next, ok := directory(filepath.Join(dir, elems[0]))
		if !ok || len(elems) == 1 {
			j.search.await(dir, elems[0])
			if !j.guard(dir, wanted) {
				return "", false
			}
			if next, ok = directory(filepath.Join(dir, elems[0])); !ok {
				return "", false
			}
		}
		return j.walk(next, elems[1:], wanted)
	}
	j.search.await(dir, elems[0])
	if !j.guard(dir, wanted) {
		return "", false
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries { // sorted by name
		if match, _ := path.Match(elems[0], e.Name()); !match {
			continue
		}
		if next, ok := directory(filepath.Join(dir, e.Name())); ok {
			if found, ok := j.walk(next, elems[1:], wanted); ok {
				return found, true
			}
		}
	}
	return "", false
}

// guard watches dir and its parent, in this order from above: whatever vanishes
// then is told of. It is false where one of them vanished before; all is looked at
// again then.
func (j *Job) guard(dir string, wanted map[string]bool) bool {
	parent := filepath.Dir(dir)
	for _, d := range [...]string{parent, dir, parent} { // is it still the parent?
		wanted[d] = true
		if !j.follow(d) {
			return false
		}
	}
	return true
}

// follow watches a directory. It is false where it vanished.
func (j *Job) follow(dir string) bool {
	ok, err := j.notify.watch(dir, dirMask)
	j.unwatched(err)
	if !ok && err == nil {
		j.notify.moved = true
		return false
	}
	return true
}

// directory returns the path of an existing directory without symbolic links: v1
// controllers that are mounted together are often links to one place.
func directory(name string) (string, bool) {
	info, err := os.Lstat(name)
	if err != nil {
		return "", false
	}
	if info.Mode()&os.ModeSymlink != 0 {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return "", false
		}
		if info, err = os.Lstat(name); err != nil {
			return "", false
		}
	}
	return name, info.IsDir()
}

// readable says whether the directories that count CPU time and memory, as far as
// they are looked for, are there.
func (s *search) readable() bool {
	for _, t := range s.open[0].missing {
		if t.controller == "cpuacct" || t.controller == "memory" {
			return false
		}
	}
	return true
}

// again looks for all directories of the chosen candidate anew.
func (j *Job) again() {
	p := &j.search.open[0]
	p.missing = p.all
	j.search.best = len(v1Order) + 1
	j.phase = rt.JobGone
	j.met.Store(true)
	j.look()
}
