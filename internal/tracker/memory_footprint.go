package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// shed gives back the memory that only the start has used: pages of the program's
// files, most of which are not read again, and the garbage. What is needed again
// is mapped again, from the page cache.
func shed() {
	debug.FreeOSMemory() // first, because it reads much of the program
	text, err := os.ReadFile(procRoot + "/self/smaps")
	if err == nil {
		for _, m := range cleanMappings(text) {
			// Advice: where it is not taken, nothing is lost but the saving.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
		}
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// cleanMappings finds in the text of smaps, see proc_pid_smaps(5), the mappings of
// files that cannot be written to and hold no page of the process's own: all of
// their content is in the file. Relocated constants, which are not, have such pages.
func cleanMappings(text []byte) (list []mapping) {
	var m mapping
	var candidate bool
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		switch {
		case len(f) >= 5 && bytes.IndexByte(f[0], '-') > 0:
			candidate = len(f) >= 6 && f[5][0] == '/' && len(f[1]) == 4 && f[1][0] == 'r' && f[1][1] == '-' && f[1][3] == 'p'
			if candidate {
				m, candidate = addresses(string(f[0]))
			}
		case candidate && len(f) >= 2 && string(f[0]) == "Anonymous:":
			if string(f[1]) == "0" {
				list = append(list, m)
			}
			candidate = false
		}
	}
	return list
}

func addresses(s string) (m mapping, ok bool) {
	for i := range s {
		if s[i] != '-' {
			continue
		}
		start, err1 := strconv.ParseUint(s[:i], 16, 64)
		end, err2 := strconv.ParseUint(s[i+1:], 16, 64)
		return mapping{uintptr(start), uintptr(end)}, err1 == nil && err2 == nil && start < end
	}
	return m, false
}
