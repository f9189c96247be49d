package proc

import (
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// localMounts picks the file systems on this node's own block devices, each once
// and where it is mounted first. What another mount hides, images (loop devices)
// and everything that a network or a user's process stands behind are left out:
// asking those for their space can hang. A root that is an overlay, as in a
// container, counts where nothing else does: it is the only view of its disk.
func localMounts(all []procfile.Mount) []procfile.Mount {
	var out []procfile.Mount
	seen := map[any]bool{}
	for i, m := range all {
		device, ok := deviceOf(&m)
		if !ok || seen[device] || hidden(m, all[i+1:]) {
			continue
		}
		seen[device] = true
		out = append(out, m)
	}
	if len(out) > 0 {
		return out
	}
	for i, m := range all {
		if m.Point == "/" && m.FSType == "overlay" && !hidden(m, all[i+1:]) {
			return []procfile.Mount{m}
		}
	}
	return nil
}

// deviceOf is what two mounts of the same space have in common; not ok where there
// is no local block device behind the mount.
func deviceOf(m *procfile.Mount) (any, bool) {
	const loop = 7 // Documentation/admin-guide/devices.txt
	switch m.FSType {
	case "btrfs", "bcachefs": // they show an anonymous device for each subvolume
		return m.Source, strings.HasPrefix(m.Source, "/dev/") && !strings.HasPrefix(m.Source, "/dev/loop")
	case "zfs": // its datasets share the space of their pool
		pool, _, _ := strings.Cut(m.Source, "/")
		return "zfs " + pool, pool != ""
	case "fuseblk":
		return nil, false
	}
	return [2]uint64{m.Major, m.Minor}, m.Major != 0 && m.Major != loop
}

func hidden(m procfile.Mount, later []procfile.Mount) bool {
	for i := range later {
		if later[i].Point == m.Point {
			return true
		}
	}
	return false
}
