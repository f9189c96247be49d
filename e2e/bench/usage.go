package main

import (
	"fmt"
	"os"
	"path/filepath"
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

// statusMiB reads a size of /proc/<pid>/status.
func statusMiB(pid int, name string) (float64, error) {
	kib, err := statusNumber(fmt.Sprintf("/proc/%d/status", pid), name)
	return kib / 1024, err
}

// statusNumber adds up the numbers behind a name in the lines of a status file.
func statusNumber(path, name string) (sum float64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(text)) {
		_, value, ok := strings.Cut(line, name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("no %s in %s", name, path)
	}
	return sum, nil
}

// switches returns the context switches of the threads that a process has.
func switches(pid int) (sum float64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		n, err := statusNumber(f, "ctxt_switches:")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// use is what a process used between two instants.
type use struct {
	begin    time.Time
	seconds  float64
	cpu      float64 // us
	switches float64
	resident float64 // MiB, at the end
	bursts   int     // how often it ran after at least half a second of rest
}

func (u use) perSecond() float64         { return u.cpu / u.seconds }
func (u use) switchesPerSecond() float64 { return u.switches / u.seconds }

// observe measures processes for a time. With rests it also looks ten times a second
// whether they ran, which costs CPU time and warms the caches.
func observe(span time.Duration, rests bool, pids ...int) ([]use, error) {
	uses, err := counts(pids)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	bursts := make([]int, len(pids))
	if rests {
		bursts, err = countBursts(span, pids)
		if err != nil {
			return nil, err
		}
	} else {
		time.Sleep(span)
	}
	after, err := counts(pids)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	for i, a := range after {
		b := &uses[i]
		b.cpu, b.switches, b.resident = a.cpu-b.cpu, a.switches-b.switches, a.resident
		b.begin, b.seconds, b.bursts = begin, seconds, bursts[i]
	}
	return uses, nil
}

func counts(pids []int) ([]use, error) {
	uses := make([]use, len(pids))
	for i, pid := range pids {
		ns, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		u := use{cpu: float64(ns) / 1000}
		u.switches, err = switches(pid)
		if err != nil {
			return nil, err
		}
		u.resident, err = statusMiB(pid, "VmRSS:")
		if err != nil {
			return nil, err
		}
		uses[i] = u
	}
	return uses, nil
}

func countBursts(span time.Duration, pids []int) ([]int, error) {
	const step, rest = 100 * time.Millisecond, 500 * time.Millisecond
	bursts, last, ran := make([]int, len(pids)), make([]int64, len(pids)), make([]time.Time, len(pids))
	for begin := time.Now(); time.Since(begin) < span; time.Sleep(step) {
		now := time.Now()
		for i, pid := range pids {
			ns, err := cpuTime(pid)
			if err != nil {
				return nil, err
			}
			if last[i] != 0 && ns != last[i] {
				if now.Sub(ran[i]) > rest {
					bursts[i]++
				}
				ran[i] = now
			}
			last[i] = ns
		}
	}
	return bursts, nil
}

// together adds up the uses of several processes.
func together(uses []use) (sum use) {
	for _, u := range uses {
		sum.cpu, sum.switches, sum.bursts = sum.cpu+u.cpu, sum.switches+u.switches, sum.bursts+u.bursts
		sum.seconds, sum.resident = u.seconds, max(sum.resident, u.resident)
	}
	return sum
}
