package cgroup

import "bytes"

// parseIOStat sums the v2 file io.stat over the devices that stand on no other,
// bytes. A line is "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6"; an empty
// file says that no I/O was done.
func parseIOStat(b []byte, skip majors) (read, write uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		device, rest := cutField(line)
		if major, ok := parseMajor(device); !ok || skip.has(major) {
			continue
		}
		for len(rest) > 0 {
			var field []byte
			field, rest = cutField(rest)
			key, value, _ := bytes.Cut(field, equals)
			v, ok := parseUint(value)
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
func parseBlkio(b []byte, skip majors) (read, write uint64) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		device, rest := cutField(line)
		if major, ok := parseMajor(device); !ok || skip.has(major) {
			continue
		}
		kind, value := cutField(rest)
		v, ok := parseUint(value)
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
	if _, ok := parseUint(device[i+1:]); !ok {
		return 0, false
	}
	return parseUint(device[:i])
}

// pidList parses cgroup.procs as it comes in pieces, which may end within a
// number. The zero value is ready.
type pidList struct {
	count  int
	n      int
	within bool
}

// add takes the next piece. With dst it appends the pids to it.
func (l *pidList) add(b []byte, dst *[]int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			l.end(dst)
			continue
		}
		l.within = true
		if l.n < 1<<30 {
			l.n = l.n*10 + int(c-'0')
		}
	}
}

// end says that no piece follows. A pid of 0, as v1 shows a process of another pid
// namespace, counts but is not listed.
func (l *pidList) end(dst *[]int) {
	if !l.within {
		return
	}
	l.count++
	if dst != nil && l.n > 0 {
		*dst = append(*dst, l.n)
	}
	l.n, l.within = 0, false
}
