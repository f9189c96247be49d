package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of all threads of a process in ns, also of those that have
// exited.
func cpuTime(pid int) (int64, error) {
	const sched = 2 // CPUCLOCK_SCHED of the kernel: a clock id of a process is ^pid<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return ts.Nano(), nil
}

// memoryMiB returns a size of /proc/<pid>/status, such as "VmRSS:".
func memoryMiB(pid int, name string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(string(text), name)
	if !found {
		return 0, fmt.Errorf("no %s in %s", name, path)
	}
	kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
	if err != nil {
		return 0, fmt.Errorf("%s in %s: %w", name, path, err)
	}
	return kib / 1024, nil
}

// use is what a process used between two instants.
type use struct {
	begin   time.Time
	seconds float64
	cpu     float64 // us
}

// perSecond is in us/s.
func (u use) perSecond() float64 { return u.cpu / u.seconds }

// observe measures processes for a time.
func observe(span time.Duration, pids ...int) ([]use, error) {
	uses := make([]use, len(pids))
	begin := time.Now()
	for i, pid := range pids {
		ns, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		uses[i].cpu = -float64(ns) / 1000
	}
	time.Sleep(span)
	for i, pid := range pids {
		ns, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		uses[i].cpu += float64(ns) / 1000
		uses[i].begin, uses[i].seconds = begin, time.Since(begin).Seconds()
	}
	return uses, nil
}
