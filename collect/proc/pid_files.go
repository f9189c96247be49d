package proc

import (
	"bytes"
	"errors"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

var errPidStat = errors.New("not the stat of a process")

// parsePidStat parses /proc/<pid>/stat.
func parsePidStat(b []byte) (procfile.Stat, error) {
	stat, ok := procfile.ParseStat(b)
	if !ok {
		return stat, errPidStat
	}
	return stat, nil
}

// parsePidIO reads the storage bytes of /proc/<pid>/io (proc_pid_io(5)): what the
// process, and the children that it has waited for, caused to be read and written.
func parsePidIO(b []byte) (c counters, ok bool) {
	var seen int
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		key, value, _ := bytes.Cut(l, colonBlank)
		k := -1
		switch string(key) {
		case "read_bytes":
			k = 0
		case "write_bytes":
			k = 1
		default:
			continue
		}
		if c[k], ok = procfile.Uint(value); !ok {
			return counters{}, false
		}
		seen++
	}
	return c, seen == 2
}

var colonBlank = []byte(": ")

// parseSwitches reads the two counts of context switches at the end of
// /proc/<pid>/status (proc_pid_status(5)): of the process's first thread.
func parseSwitches(b []byte) (c counters, ok bool) {
	i := bytes.LastIndex(b, switchesLine)
	if i < 0 {
		return c, false
	}
	first, rest := procfile.Line(b[i+len(switchesLine):])
	second, _ := procfile.Line(rest)
	second, found := bytes.CutPrefix(second, noSwitchesLine)
	if !found {
		return c, false
	}
	var ok0, ok1 bool
	c[0], ok0 = procfile.Uint(procfile.Trim(first))
	c[1], ok1 = procfile.Uint(procfile.Trim(second))
	return c, ok0 && ok1
}

var (
	switchesLine   = []byte("\nvoluntary_ctxt_switches:")
	noSwitchesLine = []byte("nonvoluntary_ctxt_switches:")
)

// parsePSS reads the line "Pss:" of /proc/<pid>/smaps_rollup, in bytes.
func parsePSS(b []byte) (uint64, bool) {
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		if word, rest := procfile.Field(l); string(word) == "Pss:" {
			kib, _ := procfile.Field(rest)
			v, ok := procfile.Uint(kib)
			return v * 1024, ok && v < 1<<54
		}
	}
	return 0, false
}

// parseStep reads from /proc/<pid>/cgroup which step and task of its job a process
// belongs to: the elements step_<name> and task_<number> of a path. Versions differ
// in which controllers have the task's directory.
func parseStep(b []byte) (step []byte, task rt.Opt[uint64]) {
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		for len(l) > 0 {
			var element []byte
			element, l = cutElement(l)
			if name, ok := bytes.CutPrefix(element, stepPrefix); ok && len(name) > 0 {
				step = name
			} else if name, ok := bytes.CutPrefix(element, taskPrefix); ok && step != nil {
				if n, ok := procfile.Uint(name); ok && n <= task.Or(n) { // the lowest is the one on the node
					task.Set(n)
				}
			}
		}
	}
	return step, task
}

var (
	stepPrefix = []byte("step_")
	taskPrefix = []byte("task_")
)

func cutElement(path []byte) (first, rest []byte) {
	if i := bytes.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return path, nil
}

// parseStepEnv reads the same from /proc/<pid>/environ, where no cgroup says it.
func parseStepEnv(b []byte) (step []byte, task rt.Opt[uint64]) {
	for len(b) > 0 {
		var entry []byte
		if i := bytes.IndexByte(b, 0); i >= 0 {
			entry, b = b[:i], b[i+1:]
		} else {
			break // cut off by the buffer
		}
		name, value, _ := bytes.Cut(entry, equals)
		switch string(name) {
		case "SLURM_STEPID":
			step = stepOf(value)
		case "SLURM_LOCALID":
			if n, ok := procfile.Uint(value); ok && n < 1<<31 {
				task.Set(n)
			}
		}
	}
	if step == nil {
		task.Clear()
	}
	return step, task
}

// stepOf names a step by its number as Slurm counts them: the special ones stand at
// the end of the 32 bits (SLURM_BATCH_SCRIPT and others of slurm.h).
func stepOf(value []byte) []byte {
	switch n, ok := procfile.Uint(value); {
	case !ok || n >= 1<<32:
		return nil
	case n == 0xfffffffb:
		return []byte("batch")
	case n == 0xfffffffc:
		return []byte("extern")
	case n == 0xfffffffa:
		return []byte("interactive")
	}
	return value
}

var equals = []byte{'='}
