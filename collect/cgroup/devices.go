package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// majors are major numbers of block devices.
type majors []uint64

func (m majors) has(n uint64) bool { return slices.Contains(m, n) }

// stackedMajors reads from <procRoot>/devices which block devices stand on others
// (device mapper, md, loop, zram): their I/O is counted once more below them. The
// kernel hands most of these numbers out at run time. Without the file none is known.
func stackedMajors(procRoot string) majors {
	b, err := os.ReadFile(filepath.Join(procRoot, "devices"))
	if err != nil {
		return nil
	}
	return parseStackedMajors(b)
}

// parseStackedMajors parses the section "Block devices:" of /proc/devices, whose
// lines are "253 device-mapper".
func parseStackedMajors(b []byte) majors {
	var out majors
	block := false
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) == 2 && f[1] == "devices:" {
			block = f[0] == "Block"
			continue
		}
		if !block || len(f) != 2 {
			continue
		}
		switch f[1] {
		case "device-mapper", "md", "mdp", "loop", "zram":
			if n, ok := parseUint([]byte(f[0])); ok {
				out = append(out, n)
			}
		}
	}
	return out
}
