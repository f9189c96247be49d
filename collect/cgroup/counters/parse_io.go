package counters

import (
	"bytes"

	"github.com/resource-tracker/rt/internal/procfile"
)

// parseIOStat sums the v2 file io.stat over the devices that stand on no other,
// bytes. A line is "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6"; the file is
// empty before the first I/O.
func parseIOStat(b []byte, stacked Majors) (read, write uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = procfile.Line(b)
		device, rest := procfile.Field(line)
		if major, ok := parseMajor(device); !ok || stacked.has(major) {
			continue
		}
		for len(rest) > 0 {
			var field []byte
			field, rest = procfile.Field(rest)
			key, value, _ := bytes.Cut(field, equals)
			v, ok := procfile.Uint(value)
			if !ok {
				continue
			}
			switch string(key) {
			case "rbytes":
				read += v
			case "wbytes":
				write += v
			}
		}
	}
	return read, write
}

var equals = []byte{'='}

// parseBlkio sums the v1 file blkio.throttle.io_service_bytes_recursive over the
// devices that stand on no other, bytes. A line is "8:0 Read 4096"; the last one,
// "Total 4096", names no device.
func parseBlkio(b []byte, stacked Majors) (read, write uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = procfile.Line(b)
		device, rest := procfile.Field(line)
		if major, ok := parseMajor(device); !ok || stacked.has(major) {
			continue
		}
		kind, value := procfile.Field(rest)
		v, ok := parseNumber(procfile.Trim(value))
		if !ok {
			continue
		}
		switch string(kind) {
		case "Read":
			read += v
		case "Write":
			write += v
		}
	}
	return read, write
}

// parseMajor returns the major number of "major:minor".
func parseMajor(device []byte) (uint64, bool) {
	i := bytes.IndexByte(device, ':')
	if i < 0 {
		return 0, false
	}
	if _, ok := procfile.Uint(device[i+1:]); !ok {
		return 0, false
	}
	return procfile.Uint(device[:i])
}
