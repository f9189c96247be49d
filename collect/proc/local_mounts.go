package proc

import (
	"slices"
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// localMounts selects the file systems on this node's own block devices, each once, at
// its first mount point. It leaves out hidden mounts, images (loop devices) and every file
// system that depends on a network or on a user's process, because statvfs of those can
// hang. A root that is an overlay, as in a container, counts if there is nothing else: it
// is the only view of its disk.
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

// deviceOf identifies the device of a mount: it is equal for two mounts of the same space.
// ok is false without a local block device.
func deviceOf(m *procfile.Mount) (device any, ok bool) {
	const loop = 7 // Documentation/admin-guide/devices.txt
	switch m.FSType {
	case "btrfs", "bcachefs": // each subvolume has an anonymous device
		return m.Source, strings.HasPrefix(m.Source, "/dev/") && !strings.HasPrefix(m.Source, "/dev/loop")
	case "zfs": // the datasets share the space of their pool
		pool, _, _ := strings.Cut(m.Source, "/")
		return "zfs " + pool, pool != ""
	case "fuseblk":
		return nil, false
	}
	return [2]uint64{m.Major, m.Minor}, m.Major != 0 && m.Major != loop
}

func hidden(m procfile.Mount, later []procfile.Mount) bool {
	return slices.ContainsFunc(later, func(l procfile.Mount) bool { return l.Point == m.Point })
}
