package proc

import (
	"bytes"
	"strings"
)

// mount is a line of /proc/<pid>/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	major, minor uint64 // of the file system's device; major 0 where it is no block device
	root         string // what of the file system is mounted
	point        string
	fsType       string
	source       string
}

// parseMountinfo appends the mounts of b to ms. A line that is not one is left out.
func parseMountinfo(b []byte, ms []mount) []mount {
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		if m, ok := parseMount(l); ok {
			ms = append(ms, m)
		}
	}
	return ms
}

func parseMount(l []byte) (m mount, ok bool) {
	left, right, ok := bytes.Cut(l, []byte(" - "))
	if !ok {
		return m, false
	}
	device, rest := field(skip(left, 2))
	major, minor, ok := bytes.Cut(device, []byte{':'})
	if !ok {
		return m, false
	}
	var ok1, ok2 bool
	m.major, ok1 = number(major)
	m.minor, ok2 = number(minor)
	root, rest := field(rest)
	point, _ := field(rest)
	fsType, rest := field(right)
	source, _ := field(rest)
	m.root, m.point = unescape(root), unescape(point)
	m.fsType, m.source = unescape(fsType), unescape(source)
	return m, ok1 && ok2 && strings.HasPrefix(m.point, "/") && m.fsType != ""
}

// unescape undoes the octal escapes (\040 for a blank) of mountinfo.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	return string(unescapeTo(make([]byte, 0, len(b)), b))
}

// unescapeTo appends the plain text to out.
func unescapeTo(out, b []byte) []byte {
	octal := func(c byte) bool { return c >= '0' && c <= '7' }
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) && b[i+1] <= '3' && octal(b[i+1]) && octal(b[i+2]) && octal(b[i+3]) {
			out = append(out, (b[i+1]-'0')<<6|(b[i+2]-'0')<<3|(b[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, b[i])
	}
	return out
}

// localMounts picks the file systems on this node's own block devices, each once
// and where it is mounted first. What another mount hides, images (loop devices)
// and everything that a network or a user's process stands behind are left out:
// asking those for their space can hang. A root that is an overlay, as in a
// container, counts where nothing else does: it is the only view of its disk.
func localMounts(all []mount) []mount {
	var out []mount
	seen := map[any]bool{}
	for i, m := range all {
		device, ok := m.device()
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
		if m.point == "/" && m.fsType == "overlay" && !hidden(m, all[i+1:]) {
			return []mount{m}
		}
	}
	return nil
}

// device is what two mounts of the same space have in common; not ok where there
// is no local block device behind the mount.
func (m *mount) device() (any, bool) {
	const loop = 7 // Documentation/admin-guide/devices.txt
	switch m.fsType {
	case "btrfs", "bcachefs": // they show an anonymous device for each subvolume
		return m.source, strings.HasPrefix(m.source, "/dev/") && !strings.HasPrefix(m.source, "/dev/loop")
	case "zfs": // its datasets share the space of their pool
		pool, _, _ := strings.Cut(m.source, "/")
		return "zfs " + pool, pool != ""
	case "fuseblk":
		return nil, false
	}
	return [2]uint64{m.major, m.minor}, m.major != 0 && m.major != loop
}

func hidden(m mount, later []mount) bool {
	for i := range later {
		if later[i].point == m.point {
			return true
		}
	}
	return false
}
