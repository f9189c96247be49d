package counters

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Majors are major numbers of block devices.
type Majors []uint64

func (m Majors) has(n uint64) bool { return slices.Contains(m, n) }

// ReadStackedMajors reads from <procRoot>/devices which block devices are stacked on
// others (device mapper, md, loop, zram): their I/O is counted again below them. The
// kernel assigns most of these numbers at run time. Without the file there are none.
func ReadStackedMajors(procRoot string) Majors {
	b, err := os.ReadFile(filepath.Join(procRoot, "devices"))
	if err != nil {
		return nil
	}
	return parseStackedMajors(b)
}

// parseStackedMajors parses the section "Block devices:" of /proc/devices. Its lines are
// "253 device-mapper".
func parseStackedMajors(b []byte) Majors {
	var out Majors
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
			if n, err := strconv.ParseUint(f[0], 10, 64); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
