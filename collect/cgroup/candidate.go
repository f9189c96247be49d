package cgroup

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// v1Order is the order in which v1 controllers are looked for, and in which their
// directories are asked for the job's end: those with the counters first.
var v1Order = []string{"cpuacct", "memory", "freezer", "pids", "cpu", "blkio", "cpuset", "devices"}

// target is the directory of one controller that is looked for.
type target struct {
	controller string
	elems      []string // of the absolute path
}

// targets checks c and returns its directories, the important ones first.
func targets(c cgroupfs.Candidate) ([]target, error) {
	if c.Version != 1 && c.Version != 2 {
		return nil, fmt.Errorf("cgroup candidate %q: version is %d; it must be 1 or 2", c.Layout, c.Version)
	}
	if _, unified := c.Dirs[cgroupfs.Unified]; len(c.Dirs) == 0 || unified != (c.Version == 2) || (unified && len(c.Dirs) != 1) {
		return nil, fmt.Errorf("cgroup candidate %q: version 2 has exactly one directory, version 1 one for each controller by its name", c.Layout)
	}
	out := make([]target, 0, len(c.Dirs))
	for controller, dir := range c.Dirs {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			return nil, fmt.Errorf("cgroup candidate %q: directory %q must be an absolute path below /", c.Layout, dir)
		}
		if _, err := path.Match(dir, ""); err != nil {
			return nil, fmt.Errorf("cgroup candidate %q: directory %q: %w", c.Layout, dir, err)
		}
		elems := strings.Split(strings.TrimPrefix(filepath.Clean(dir), "/"), "/")
		out = append(out, target{controller, elems})
	}
	slices.SortFunc(out, func(a, b target) int {
		if d := rank(a.controller) - rank(b.controller); d != 0 {
			return d
		}
		return strings.Compare(a.controller, b.controller)
	})
	return out, nil
}

func rank(controller string) int {
	if i := slices.Index(v1Order, controller); i >= 0 {
		return i
	}
	return len(v1Order)
}

// isPattern says whether a path element has to be matched rather than opened.
func isPattern(elem string) bool { return strings.ContainsAny(elem, `*?[\`) }

// bindings are what the patterns of elems stand for in found, the elements of the
// path that was found.
func bindings(elems, found []string) []string {
	var out []string
	for i, e := range elems {
		if isPattern(e) {
			out = append(out, found[i])
		}
	}
	return out
}

// bind returns elems with their patterns replaced by bound, so that all
// hierarchies of a job are the same job's. With another number of patterns there
// is nothing to go by, and elems stay as they are.
func bind(elems, bound []string) []string {
	n := 0
	for _, e := range elems {
		if isPattern(e) {
			n++
		}
	}
	if n != len(bound) {
		return elems
	}
	out := slices.Clone(elems)
	n = 0
	for i, e := range out {
		if isPattern(e) {
			out[i] = bound[n]
			n++
		}
	}
	return out
}
