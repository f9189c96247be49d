package proc

import (
	"bytes"
	"errors"

	"github.com/resource-tracker/rt/internal/procfile"
)

var errPidStat = errors.New("not in the form of proc_pid_stat(5)")

// parsePidStat parses /proc/<pid>/stat.
func parsePidStat(b []byte) (procfile.Stat, error) {
	stat, ok := procfile.ParseStat(b)
	if !ok {
		return stat, errPidStat
	}
	return stat, nil
}

// parsePidIO parses the storage bytes of /proc/<pid>/io (proc_pid_io(5)): those that the
// process, and the children that it has waited for, caused to be read and written.
func parsePidIO(b []byte) (c counters, ok bool) {
	for seen := 0; seen < len(c); {
		if len(b) == 0 {
			return counters{}, false
		}
		var key []byte
		var v uint64
		key, v, ok, b = procfile.Pair(b)
		switch string(key) {
		case "read_bytes:":
			c[0] = v
		case "write_bytes:":
			c[1] = v
		default:
			continue
		}
		if !ok {
			return counters{}, false
		}
		seen++
	}
	return c, true
}

// parseSwitches parses the two counts of context switches at the end of
// /proc/<pid>/status (proc_pid_status(5)): those of the process's first thread.
func parseSwitches(b []byte) (c counters, ok bool) {
	i := bytes.LastIndex(b, voluntaryLine)
	if i < 0 {
		return c, false
	}
	_, voluntary, ok1, rest := procfile.Pair(b[i+1:])
	key, involuntary, ok2, _ := procfile.Pair(rest)
	return counters{voluntary, involuntary}, ok1 && ok2 && string(key) == "nonvoluntary_ctxt_switches:"
}

var voluntaryLine = []byte("\nvoluntary_ctxt_switches:")

// parsePSS parses the line "Pss:" of /proc/<pid>/smaps_rollup, in bytes.
func parsePSS(b []byte) (uint64, bool) {
	for len(b) > 0 {
		key, kib, ok, rest := procfile.Pair(b)
		if string(key) == "Pss:" {
			return kib * 1024, ok && kib < 1<<54
		}
		b = rest
	}
	return 0, false
}
