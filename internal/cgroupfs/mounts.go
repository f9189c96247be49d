package cgroupfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Mounts are the mount points of the cgroup hierarchies.
type Mounts struct {
	// V1 has the mount point of each v1 controller; controllers mounted together
	// ("cpu,cpuacct") have the same one. Empty on a machine with v2 alone.
	V1 map[string]string
	// V2 is the mount point of the unified hierarchy, empty if there is none. On a
	// machine that also has v1 it may have no controller.
	V2 string
}

// ReadMounts reads the mount points of the cgroup hierarchies from
// <procRoot>/self/mountinfo. They are empty on a machine without any.
func ReadMounts(procRoot string) (Mounts, error) {
	name := filepath.Join(procRoot, "self", "mountinfo")
	b, err := os.ReadFile(name)
	if err != nil {
		return Mounts{}, fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	return mountsOf(procfile.ParseMountinfo(b)), nil
}

// mountsOf finds the cgroup hierarchies among the mounts. Of a hierarchy that is
// mounted more than once, the mount of its root is taken, or else the first mount.
func mountsOf(all []procfile.Mount) Mounts {
	t := Mounts{V1: map[string]string{}}
	whole := map[string]bool{}
	put := func(key string, m *procfile.Mount) bool {
		isWhole, seen := whole[key]
		isBetter := m.Root == "/" && !isWhole
		if seen && !isBetter {
			return false
		}
		whole[key] = m.Root == "/"
		return true
	}
	for i := range all {
		m := &all[i]
		switch m.FSType {
		case "cgroup2":
			if put(Unified, m) {
				t.V2 = m.Point
			}
		case "cgroup":
			for o := range strings.SplitSeq(m.SuperOptions, ",") {
				if isController(o) && put(o, m) {
					t.V1[o] = m.Point
				}
			}
		}
	}
	return t
}

// isController distinguishes a controller from the other mount options of v1.
func isController(option string) bool {
	switch option {
	case "", "rw", "ro", "xattr", "none", "all", "noprefix", "clone_children", "cpuset_v2_mode",
		"favordynmods", "nofavordynmods", "seclabel":
		return false
	}
	return !strings.Contains(option, "=")
}
