package cgroupfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	return parseMountInfo(b), nil
}

// parseMountInfo parses proc(5) /proc/<pid>/mountinfo:
//
//	36 35 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct
//
// Of a hierarchy that is mounted more than once, the mount of its root is taken, or
// else the first mount.
func parseMountInfo(b []byte) Mounts {
	t := Mounts{V1: map[string]string{}}
	whole := map[string]bool{}
	put := func(key, root, at string) bool {
		_, seen := whole[key]
		if seen && (whole[key] || root != "/") {
			return false
		}
		whole[key] = root == "/"
		return at != ""
	}
	for line := range bytes.Lines(b) {
		head, tail, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " - ")
		h, f := strings.Fields(head), strings.Fields(tail)
		if !ok || len(h) < 6 || len(f) < 3 {
			continue
		}
		root, at := unescape(h[3]), unescape(h[4])
		switch f[0] {
		case "cgroup2":
			if put(Unified, root, at) {
				t.V2 = at
			}
		case "cgroup":
			for o := range strings.SplitSeq(f[2], ",") {
				if isController(o) && put(o, root, at) {
					t.V1[o] = at
				}
			}
		}
	}
	return t
}

// isController distinguishes a controller from the other mount options of a v1
// hierarchy.
func isController(option string) bool {
	switch option {
	case "", "rw", "ro", "xattr", "none", "all", "noprefix", "clone_children", "cpuset_v2_mode",
		"favordynmods", "nofavordynmods", "seclabel":
		return false
	}
	return !strings.Contains(option, "=")
}

// unescape undoes the octal escapes of mountinfo: space, tab, newline, backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
