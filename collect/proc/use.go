package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// ReadUse reads the threads of a process and its resident memory in bytes once: /proc/<pid>/stat, and the
// second figure of /proc/<pid>/statm, which is exact. Field 24 of stat may be off by some hundred pages
// for each CPU. A zombie is an error.
func ReadUse(procRoot string, pid int) (threads, resident uint64, err error) {
	stat, err := procfile.ReadStat(procRoot, pid)
	if err != nil {
		return 0, 0, err
	}
	if stat.Ended() {
		return 0, 0, fmt.Errorf("process %d has ended", pid)
	}
	path := filepath.Join(procRoot, strconv.Itoa(pid), "statm")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	var pages [2]uint64 // virtual, resident
	_, ok := procfile.Uints(text, pages[:])
	if !ok || pages[1] >= 1<<40 {
		return 0, 0, fmt.Errorf("parse %s: %q is not in the form of proc_pid_statm(5)", path, text)
	}
	return stat.Threads, pages[1] * pageSize, nil
}

// CPUTime returns the CPU time of all threads of a process: CLOCK_PROCESS_CPUTIME_ID of another process,
// clock_getcpuclockid(3). It is 0 for a process that has ended.
func CPUTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduler), &t)
	switch {
	case errors.Is(err, unix.EINVAL):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
