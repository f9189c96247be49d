package cgroupfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Own are the directories of a controller for this process: its own cgroup, and then its ancestors, as far as they
// are mounted here. In a container the last one is usually the container's.
type Own struct {
	Version int // of the cgroup interface; 0 for none
	Dirs    []string
}

// ReadOwn finds the directories of a controller from <procRoot>/self/cgroup and <procRoot>/self/mountinfo. A
// controller of v1 precedes v2, which then has no such controller.
func ReadOwn(procRoot, controller string) (Own, error) {
	cgroups, err := os.ReadFile(filepath.Join(procRoot, "self", "cgroup"))
	if err != nil {
		return Own{}, fmt.Errorf("find the cgroup of this process: %w", err)
	}
	mountinfo, err := os.ReadFile(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return Own{}, fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	mounts := procfile.ParseMountinfo(mountinfo)
	if path, ok := pathOf(string(cgroups), controller); ok {
		has := func(m *procfile.Mount) bool {
			return m.FSType == "cgroup" && slices.Contains(strings.Split(m.SuperOptions, ","), controller)
		}
		if dirs := ownDirs(mounts, path, has); dirs != nil {
			return Own{1, dirs}, nil
		}
	}
	if path, ok := pathOf(string(cgroups), Unified); ok {
		if dirs := ownDirs(mounts, path, func(m *procfile.Mount) bool { return m.FSType == "cgroup2" }); dirs != nil {
			return Own{2, dirs}, nil
		}
	}
	return Own{}, nil
}

// pathOf returns the path of a controller's cgroup in /proc/<pid>/cgroup: a line is "4:memory,pids:/path", and
// "0::/path" for v2. No user can name a controller.
func pathOf(text, controller string) (string, bool) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if ok && path != "" && slices.Contains(strings.Split(controllers, ","), controller) {
			return path, true
		}
	}
	return "", false
}

// ownDirs returns the existing directories from the cgroup path up to the mount of its hierarchy; nil for none. A path
// that is not below the mounted directory belongs to another namespace: the mounted directory is then the only one.
func ownDirs(mounts []procfile.Mount, path string, has func(*procfile.Mount) bool) (dirs []string) {
	at := ""
	for i := range mounts {
		m := &mounts[i]
		if !has(m) {
			continue
		}
		root := strings.TrimSuffix(m.Root, "/")
		below, isBelow := strings.CutPrefix(path, root)
		if isBelow && IsBelow(path, root) {
			dir := filepath.Join(m.Point, below)
			if _, err := os.Stat(dir); err == nil {
				return parents(dir, m.Point)
			}
		}
		if at == "" {
			at = m.Point
		}
	}
	if at == "" {
		return nil
	}
	return []string{at}
}

// parents returns dir and the directories above it up to top.
func parents(dir, top string) (list []string) {
	for IsBelow(dir, top) {
		list = append(list, dir)
		if dir == top {
			break
		}
		dir = filepath.Dir(dir)
	}
	return list
}
