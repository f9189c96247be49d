package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// beLean has the process use little of a machine that is there for others.
func beLean() {
	// Two processors are enough. A number that is said is also not looked up in the
	// cgroup's limits once a second.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(25) // garbage is collected at 1 MiB, not at 4: what the start leaves does not stay
}

// settling is the sink that ends the start-up: what it has left is given back, and the
// collector gets now what it keeps for itself. It would take a piece of that in each of
// its first rounds, two minutes apart, and we would be seen to grow.
type settling struct{ readings int }

// Put implements collect.Sink.
func (s *settling) Put(*rt.Snapshot) error {
	if s.readings++; s.readings == 3 { // all sources have been read twice, and a sample is out
		unmapUnused()
		for range 4 {
			runtime.GC()
		}
		debug.FreeOSMemory()
	}
	return nil
}

// unmapUnused takes the program's code and constants out of our memory. What is needed
// again comes back out of the kernel's cache at the next touch; what only the start
// needed does not. A mapping in which anything was written has anonymous pages, and is
// left alone, as are the libraries: the next thread would bring them back.
func unmapUnused() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return // then we are as large as we are
	}
	var from, to uint64
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 6 && strings.Contains(f[0], "-"): // addresses, permissions, offset, device, inode, file
			from, to = 0, 0
			if (f[1] == "r-xp" || f[1] == "r--p") && f[5] == self {
				first, last, _ := strings.Cut(f[0], "-")
				from, _ = strconv.ParseUint(first, 16, 64) // as the kernel prints it
				to, _ = strconv.ParseUint(last, 16, 64)
			}
		case len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0" && from < to:
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED) // it changes nothing where it fails
		}
	}
}
