package watch

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

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
	_, isUnified := c.Dirs[cgroupfs.Unified]
	isWrongKey := isUnified != (c.Version == 2)
	isTooMany := isUnified && len(c.Dirs) != 1
	if len(c.Dirs) == 0 || isWrongKey || isTooMany {
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
		out = append(out, target{controller, splitPath(filepath.Clean(dir))})
	}
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(cgroupfs.Rank(a.controller)-cgroupfs.Rank(b.controller), strings.Compare(a.controller, b.controller))
	})
	return out, nil
}

func splitPath(dir string) []string { return strings.Split(strings.TrimPrefix(dir, "/"), "/") }

// isPattern says whether a path element has to be matched instead of opened.
func isPattern(elem string) bool { return strings.ContainsAny(elem, `*?[\`) }

// bindings are the names that the patterns of elems matched in found, the elements of
// the path that was found.
func bindings(elems, found []string) []string {
	var out []string
	for i, e := range elems {
		if isPattern(e) {
			out = append(out, found[i])
		}
	}
	return out
}

// bind returns elems with their patterns replaced by bound, so that the directories in
// all hierarchies are of the same job. With another number of patterns elems stay as
// they are.
func bind(elems, bound []string) []string {
	if len(bindings(elems, elems)) != len(bound) {
		return elems
	}
	out := slices.Clone(elems)
	for i, e := range out {
		if isPattern(e) {
			out[i], bound = bound[0], bound[1:]
		}
	}
	return out
}
