package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// times are the durations of many runs of one command, in ms.
type times []float64

// least returns the time that a tenth of the runs keep. What delays a run on a busy machine lengthens the others.
func (t times) least() float64 { return slices.Sorted(slices.Values(t))[len(t)/10] }

// hooks measures both hooks from start to exit next to an empty shell command, by turns.
func hooks(bin, dir string) (figures []figure, err error) {
	const runs = 100
	instant, err := instantTracker(dir)
	if err != nil {
		return nil, err
	}
	fast, err := newNode(bin, dir, "instant")
	if err != nil {
		return nil, err
	}
	full, err := newNode(bin, dir, "full")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fast.configure(instant, 10*time.Second), full.configure("", 10*time.Second)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, full.close()) }()
	var shell, launch, ready, end times
	for id := 1; id <= runs; id++ {
		for _, step := range []struct {
			into *times
			run  func(id int) (float64, error)
		}{{&shell, emptyShell}, {&launch, fast.prolog}, {&ready, full.prolog}, {nil, full.shortJob}, {&end, full.epilog}} {
			took, err := step.run(id)
			if err != nil {
				return nil, err
			}
			if step.into != nil {
				*step.into = append(*step.into, took)
			}
		}
	}
	next := func(what string, t times, limit float64) figure {
		return figure{
			what: what, value: t.least() / shell.least(), unit: "x", limit: limit,
			from: fmt.Sprintf("%.1f ms; bash -c :, %.1f ms", t.least(), shell.least()),
		}
	}
	return []figure{
		next("rt-prolog, next to bash -c :", launch, 3),
		next("rt-prolog with the first reading", ready, 10),
		next("rt-epilog, next to bash -c :", end, 8),
	}, nil
}

func emptyShell(int) (float64, error) {
	begin := time.Now()
	err := exec.Command("bash", "-c", ":").Run()
	return milliseconds(time.Since(begin)), err
}

// shortJob runs a process in the cgroups of a job for a moment. So the tracker has taken its last reading before the
// Epilog, as in a real job. Without root the job has no process.
func (n *node) shortJob(id int) (float64, error) {
	const moment = 100 * time.Millisecond
	if os.Getuid() != 0 {
		return 0, nil
	}
	j := &job{id: id}
	if err := j.start(n.work, 1); err != nil {
		return 0, err
	}
	time.Sleep(moment)
	err := j.stop()
	time.Sleep(2 * moment)
	return 0, err
}

// instantTracker compiles a tracker that is ready at once: the hook takes the remaining time. It has no C library:
// the start of one takes 0.3 ms where the hypervisor emulates CPUID.
func instantTracker(dir string) (string, error) {
	const source = `
static long call(long number, long a, long b, long c) {
#if defined __x86_64__
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
#elif defined __aarch64__
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}
#include <sys/syscall.h>
void _start(void) {
	long written = call(SYS_write, 3, (long)"ready\n", 6);
	call(SYS_exit_group, written != 6, 0, 0);
}
`
	path := filepath.Join(dir, "instant-tracker")
	cmd := exec.Command("gcc", "-O2", "-static", "-nostdlib", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
}
