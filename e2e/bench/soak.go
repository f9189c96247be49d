package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// soak runs resource-tracker, which samples once a second as on an idle machine, and shows
// its memory after a tenth of the time and at the end. The activity of the rest of the
// machine is shown next to it, because the figures depend on it.
func soak(bin string, span time.Duration) ([]row, error) {
	cmd := exec.Command(filepath.Join(bin, "resource-tracker"), "--interval", "1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; run make build first", err)
	}
	defer cmd.Process.Kill() // it has exited unless there was an error
	var samples atomic.Int64
	go countLines(out, &samples)

	const warm = 5 * time.Second
	time.Sleep(warm)
	first, err := lookAt(cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	seen := samples.Load()
	time.Sleep(span/10 - warm)
	early, err := lookAt(cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	time.Sleep(span - span/10)
	last, err := lookAt(cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	n := float64(samples.Load() - seen)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, err
	}
	used, passed := float64(last.cpu-first.cpu), float64(last.at.Sub(first.at))
	return []row{
		{what: fmt.Sprintf("resource-tracker --interval 1, samples in %s", span), figure: float64(samples.Load()), unit: ""},
		{what: fmt.Sprintf("  resident after %s", span/10), figure: early.rss, unit: "MiB", budget: 14},
		{what: fmt.Sprintf("  resident after %s", span), figure: last.rss, unit: "MiB", budget: 14},
		{what: fmt.Sprintf("  of it anonymous after %s", span/10), figure: early.anon, unit: "MiB"},
		{what: fmt.Sprintf("  of it anonymous after %s", span), figure: last.anon, unit: "MiB"},
		{what: "  of one core", figure: 100 * used / passed, unit: "%", budget: 0.1},
		{what: "  per sample", figure: used / 1000 / n, unit: "us"},
		{what: "  context switches per sample", figure: (last.switches - first.switches) / n, unit: ""},
		{what: "  what the machine was busy with meanwhile, it included", figure: 100 * float64(last.busy-first.busy) / 100 / (passed / 1e9), unit: "% of a core"},
	}, nil
}

func countLines(from io.Reader, n *atomic.Int64) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		n.Add(1)
	}
}

// look is the kernel's figures of a process at one instant.
type look struct {
	at        time.Time
	cpu       int64 // ns
	rss, anon float64
	switches  float64
	busy      int64 // of the whole machine, USER_HZ
}

func lookAt(pid int) (l look, err error) {
	l.at = time.Now()
	if l.cpu, err = cpuTime(pid); err != nil {
		return l, err
	}
	if l.rss, err = statusMiB(pid, "VmRSS:"); err != nil {
		return l, err
	}
	if l.anon, err = statusMiB(pid, "RssAnon:"); err != nil {
		return l, err
	}
	if l.switches, err = switches(pid); err != nil {
		return l, err
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l, err
	}
	var user, nice, system int64
	_, err = fmt.Sscanf(string(stat), "cpu %d %d %d", &user, &nice, &system)
	l.busy = user + nice + system
	return l, err
}
