package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// The benchmark of rt-spool jobs lists so many runs, each of ten minutes.
const (
	listedRuns     = 10_000
	listedReadings = 60
)

// listed measures rt-spool jobs over many runs: the first list, which reads all files, and a
// later one, which reads the index.
func listed(bin, dir string) ([]row, error) {
	spoolDir := filepath.Join(dir, "jobs")
	if err := manyRuns(spoolDir); err != nil {
		return nil, err
	}
	var rows []row
	for _, of := range []struct {
		what   string
		budget float64 // seconds until the first line; of a first list there is none
	}{{"jobs over 10,000 runs, no index yet", 0}, {"jobs over 10,000 runs, with the index", 1}} {
		cmd := exec.Command(filepath.Join(bin, "rt-spool"), "--config", "/dev/null", "--spool", spoolDir, "jobs", "--wide")
		cmd.Env, cmd.Stderr = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache")), os.Stderr
		first, all, err := timesOf(cmd)
		if err != nil {
			return nil, fmt.Errorf("rt-spool jobs: %w", err)
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		rows = append(rows, row{what: of.what + ": the first line", figure: first.Seconds(), unit: "s", budget: of.budget},
			row{what: "  all lines", figure: all.Seconds(), unit: "s"}, row{what: "  CPU time", figure: cpu.Seconds(), unit: "s"})
	}
	return rows, nil
}

// timesOf runs a command, and returns when its first line and its last one arrived.
func timesOf(cmd *exec.Cmd) (first, all time.Duration, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("%w; run make build first", err)
	}
	r := bufio.NewReader(out)
	_, err = r.ReadString('\n')
	first = time.Since(start)
	_, copyErr := io.Copy(io.Discard, r)
	err = errors.Join(err, copyErr, cmd.Wait())
	return first, time.Since(start), err
}

// manyRuns makes a spool of copies of one run, each of another job, that changed an hour ago.
func manyRuns(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	run, path, err := templateRun(dir + "-template")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	errs := make([]error, runtime.NumCPU())
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for job := worker + 1; job <= listedRuns && errs[worker] == nil; job += len(errs) {
				errs[worker] = copyRun(dir, data, run, uint64(job))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// copyRun writes the file of a run as one of another job.
func copyRun(dir string, data []byte, run rt.Run, job uint64) error {
	run.JobID = rt.Some(job)
	run.Start, run.End = run.Start.Add(time.Duration(job)*time.Minute), run.End.Add(time.Duration(job)*time.Minute)
	path := filepath.Join(dir, run.FileStem()+".db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	r, err := spool.Open(path)
	if err != nil {
		return err
	}
	then := time.Now().Add(-time.Hour)
	return errors.Join(r.UpdateRun(run), r.Close(), os.Chtimes(path, then, then))
}

// templateRun spools one run with a reading every 10 s, and returns it and its file.
func templateRun(dir string) (run rt.Run, path string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return run, "", err
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run = rt.Run{
		Identity:   rt.Identity{Cluster: "cluster", JobID: rt.Some[uint64](1), Node: "node1", Start: start},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", Account: "chem", Partition: "main", NodeList: "node1", NumNodes: rt.Some[uint64](1), AllocCPUs: rt.Some[uint64](8), GPUs: "0,1"},
		Meta:       rt.Metadata{JobName: "relax"}, Ending: rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: "node1"}, spool.Options{CommitRows: listedReadings})
	if err != nil {
		return run, "", err
	}
	for i := range int64(listedReadings) {
		s := templateSnapshot(i, start)
		if err := w.Put(&s); err != nil {
			return run, "", err
		}
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: start.Add(listedReadings * 10 * time.Second)})
	run.State = rt.StateEnded
	return run, w.Path(), w.End(run)
}

// templateSnapshot is reading i of a job with a step, four processes and two GPUs.
func templateSnapshot(i int64, start time.Time) rt.Snapshot {
	v := uint64(i)
	s := rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*10e9, Boot: 1e12 + i*10e9}
	s.Job = rt.JobReading{
		Phase: rt.JobPresent, CPUUsage: rt.Some(v*30_003_977 + v%977), CPUUser: rt.Some(v * 29_000_137), CPUSystem: rt.Some(v * 1_003_840),
		MemCurrent: rt.Some(1<<30 + v*v%9973*4096), MemPeak: rt.Some[uint64](2 << 30), MemLimit: rt.Some[uint64](8 << 30), Pids: rt.Some(4 + v%3),
	}
	s.Node.NetRxBytes, s.Node.MemFree, s.Node.CPUs = rt.Some(v*37_001+v%997), rt.Some(8<<30+v%991*4096), rt.Some[uint64](16)
	s.Node.CPU = rt.Some(rt.CPUTimes{User: v * 3001, Idle: v * 13_007})
	for core := range 16 {
		s.CPUs = append(s.CPUs, rt.CPUReading{CPU: core, Times: rt.CPUTimes{User: v * uint64(101+core), Idle: v * 800}})
	}
	s.Steps = []rt.StepReading{{Step: "0", CPUUsage: s.Job.CPUUsage, MemCurrent: s.Job.MemCurrent}}
	for pid := range uint64(4) {
		s.Procs = append(s.Procs, rt.ProcessReading{PID: 100 + pid, Comm: "solve", UserTicks: rt.Some(v * 740), RSS: rt.Some(1<<28 + v%97*4096)})
	}
	for _, uuid := range []string{"GPU-1", "GPU-2"} {
		s.GPUs = append(s.GPUs, rt.GPUReading{UUID: uuid, InJob: rt.Some(true), Utilization: rt.Some(float64(v * 7 % 100)), VRAMUsed: rt.Some(1<<30 + v%31<<20), VRAMTotal: rt.Some[uint64](40 << 30)})
	}
	return s
}
