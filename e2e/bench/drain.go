package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// drained measures a real drain of one long run, from its file to a receiver, by the CPU
// time that it takes, and how many runs a second a receiver accepts, on the disk and in
// memory, where it never waits for I/O.
func drained(bin, dir string) ([]row, error) {
	const snapshots = 200_000
	if err := longRun(filepath.Join(dir, "spool"), snapshots); err != nil {
		return nil, err
	}
	cpu, mib, err := drainOnce(bin, dir, snapshots)
	if err != nil {
		return nil, err
	}
	rows := []row{
		{what: "a real drain, from SQLite to the receiver, per second of its CPU time", figure: snapshots / cpu.Seconds(), unit: "/s", budget: 100_000, more: true},
		{what: "  resident at most (10,000 runs: TestDrainMemory)", figure: mib, unit: "MiB", budget: 64},
	}
	for _, place := range []struct{ dir, what string }{{dir, "runs that a receiver takes, data on the disk"}, {"/dev/shm", "  and in memory: without waiting for fsync"}} {
		rate, err := capacity(bin, place.dir)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{what: place.what, figure: rate, unit: "/s", budget: 500, more: true})
	}
	return rows, nil
}

// longRun spools a run of n snapshots of a job on a busy node.
func longRun(dir string, n int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	start := time.Now().Add(-time.Duration(n) * time.Second)
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](1), Node: "n1", Start: start}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{CommitRows: 200})
	if err != nil {
		return err
	}
	for i := range n {
		v := uint64(i)
		s := rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: 1e12 + i*1e9, Reason: rt.ReasonTick}
		s.Job = rt.JobReading{
			Phase: rt.JobPresent, CPUUsage: rt.Some(v*987_003 + v%977), CPUUser: rt.Some(v*900_137 + v%977), CPUSystem: rt.Some(v * 86_866),
			MemCurrent: rt.Some(1<<30 + v*v%9973*4096), MemPeak: rt.Some[uint64](2 << 30), Pids: rt.Some(3 + v%5),
			IOReadBytes: rt.Some(v * 40960), IOWriteBytes: rt.Some(v * 8192),
		}
		s.Node.NetRxBytes, s.Node.NetTxBytes = rt.Some(v*37_001+v%997), rt.Some(v*15_001)
		s.Node.Processes, s.Node.MemFree = rt.Some(300+v%7), rt.Some(8<<30+v%991*4096)
		if err := w.Put(&s); err != nil {
			return err
		}
	}
	run.Apply(rt.Exit{Outcome: rt.OutcomeFinished, Time: time.Now()})
	return w.End(run)
}

// drainOnce drains the spool in dir, and returns the CPU time and the memory that it took.
func drainOnce(bin, dir string, snapshots int64) (cpu time.Duration, mib float64, err error) {
	conf, token := filepath.Join(dir, "rt.toml"), filepath.Join(dir, "token")
	err = errors.Join(os.WriteFile(token, []byte("a-token\n"), 0o600),
		os.WriteFile(conf, fmt.Appendf(nil, "[spool]\ndir = %q\n[drain]\nsacct = \"off\"\n", filepath.Join(dir, "spool")), 0o600))
	if err != nil {
		return 0, 0, err
	}
	serve := exec.Command(filepath.Join(bin, "rt-site"), "--config", conf, "serve", "--listen", "127.0.0.1:0", "--dir", filepath.Join(dir, "received"), "--token-file", token)
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := serve.Start(); err != nil {
		return 0, 0, fmt.Errorf("%w; run make build first", err)
	}
	defer func() { err = errors.Join(err, serve.Process.Signal(syscall.SIGTERM), serve.Wait()) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, 0, fmt.Errorf("serve: %w", err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	drain := exec.Command(filepath.Join(bin, "rt-spool"), "--config", conf, "drain", "--json")
	drain.Env = append(os.Environ(), "SENTINEL_API_URL="+url, "SENTINEL_API_TOKEN=a-token", "AWS_ENDPOINT_URL_S3="+url)
	drain.Stderr = os.Stderr
	said, err := drain.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("drain: %w\n%s", err, said)
	}
	var sum struct{ Rows int64 }
	if err := json.Unmarshal(said, &sum); err != nil || sum.Rows != snapshots-1 {
		return 0, 0, fmt.Errorf("drain: %d rows of %d, %w", sum.Rows, snapshots-1, err)
	}
	use := drain.ProcessState.SysUsage().(*syscall.Rusage)
	return drain.ProcessState.UserTime() + drain.ProcessState.SystemTime(), float64(use.Maxrss) / 1024, nil
}

var runsPerSecond = regexp.MustCompile(`clients: +([0-9]+) runs/s`)

// capacity returns the best figure of e2e/scale.
func capacity(bin, dir string) (best float64, err error) {
	cmd := exec.Command("go", "run", "-tags", "nethttpomithttp2", "./e2e/scale", "-capacity", "-dir", dir)
	cmd.Env = append(os.Environ(), "RT_BIN="+bin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("e2e/scale: %w\n%s", err, out)
	}
	for _, m := range runsPerSecond.FindAllStringSubmatch(string(out), -1) {
		rate, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		best = max(best, rate)
	}
	return best, nil
}
