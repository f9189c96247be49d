package counters

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Majors are major numbers of block devices.
type Majors []uint64

// hides says whether the I/O of "major:minor" does not count: the device is stacked, or
// that names none.
func (m Majors) hides(device []byte) bool {
	before, after, _ := bytes.Cut(device, []byte{':'})
	major, ok := procfile.Uint(before)
	_, isDevice := procfile.Uint(after)
	return !ok || !isDevice || slices.Contains(m, major)
}

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

// parseIOStat sums the v2 file io.stat over the devices that stand on no other,
// bytes. A line is "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6"; the file is
// empty before the first I/O.
func parseIOStat(b []byte, stacked Majors) (read, write uint64) {
	eachNumber(b, func(device, key []byte, n uint64) {
		switch {
		case string(key) == "rbytes" && !stacked.hides(device):
			read += n
		case string(key) == "wbytes" && !stacked.hides(device):
			write += n
		}
	})
	return read, write
}

// parseBlkio sums the v1 file blkio.throttle.io_service_bytes_recursive over the
// devices that stand on no other, bytes. A line is "8:0 Read 4096"; the last one,
// "Total 4096", names no device.
func parseBlkio(b []byte, stacked Majors) (read, write uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = procfile.Line(b)
		device, rest := procfile.Field(line)
		kind, value := procfile.Field(rest)
		n, ok := parseNumber(procfile.Trim(value))
		switch {
		case !ok, stacked.hides(device):
		case string(kind) == "Read":
			read += n
		case string(kind) == "Write":
			write += n
		}
	}
	return read, write
}
