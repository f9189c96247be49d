package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// times are the durations of many runs of one command, in milliseconds.
type times []float64

func (t times) quantile(q float64) float64 {
	s := slices.Sorted(slices.Values(t))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// node is a node that runs hooks as slurmd runs them.
type node struct{ bin, dir, state, config string }

// newNode writes a configuration with the given tracker, empty for the real one.
func newNode(bin, dir, name, tracker, interval string) (node, error) {
	n := node{bin: bin, dir: filepath.Join(dir, name)}
	n.config, n.state = filepath.Join(n.dir, "rt.toml"), filepath.Join(stateRoot(dir), name, "state")
	for _, d := range []string{filepath.Join(n.dir, "spool"), n.state} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return n, err
		}
	}
	if tracker == "" {
		tracker = filepath.Join(bin, "rt-tracker")
	}
	text := fmt.Sprintf("[spool]\ndir = %q\nuser = \"root\"\n[tracker]\npath = %q\ninterval = %q\nfirst_interval = %q\nstate_dir = %q\n"+
		"[hooks]\nready_timeout = \"10s\"\nstop_timeout = \"10s\"\n[log]\ntarget = %q\n",
		filepath.Join(n.dir, "spool"), tracker, interval, interval, n.state, n.log())
	return n, os.WriteFile(n.config, []byte(text), 0o644)
}

// stateRoot returns the parent of state directories: a tmpfs, as /run is, if the machine
// has one.
func stateRoot(dir string) string {
	const tmpfs = 0x01021994 // TMPFS_MAGIC, statfs(2)
	var fs syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &fs) == nil && fs.Type == tmpfs {
		return filepath.Join("/dev/shm", filepath.Base(dir))
	}
	return dir
}

func (n node) log() string { return filepath.Join(n.dir, "log") }

// hook runs rt-prolog or rt-epilog for a job and returns how long it took.
func (n node) hook(program, context string, job int) (float64, error) {
	cmd := exec.Command(filepath.Join(n.bin, program), "--config", n.config)
	cmd.Env = []string{
		"SLURM_JOB_ID=" + strconv.Itoa(job), "SLURMD_NODENAME=n1", "SLURM_CLUSTER_NAME=bench", "SLURM_SCRIPT_CONTEXT=" + context,
		"SLURM_JOB_UID=0", "SLURM_JOB_GID=0", "SLURM_JOB_USER=root", "SLURM_NODELIST=n1", "SLURM_JOB_NUM_NODES=1",
		"SLURM_JOB_CPUS_PER_NODE=1", "SLURM_JOB_EXIT_CODE=0", "SLURM_JOB_EXIT_CODE2=0:0",
	}
	begin := time.Now()
	err := cmd.Run()
	took := float64(time.Since(begin).Microseconds()) / 1000
	if err != nil {
		return took, fmt.Errorf("%s: %w", program, err)
	}
	return took, nil
}

// quiet returns an error if a hook has logged something.
func (n node) quiet() error {
	text, err := os.ReadFile(n.log())
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(text) > 0 {
		return fmt.Errorf("the hooks have logged: %s", text)
	}
	return nil
}

// hooks measures both programs from start to exit, and an empty shell command.
func hooks(bin, dir string) ([]row, error) {
	const runs = 100
	shell, err := shellTimes(runs)
	if err != nil {
		return nil, err
	}
	instant, err := instantTracker(dir)
	if err != nil {
		return nil, err
	}
	fast, err := newNode(bin, dir, "instant", instant, "10s")
	if err != nil {
		return nil, err
	}
	real, err := newNode(bin, dir, "real", "", "10s")
	if err != nil {
		return nil, err
	}
	var launch, ready, stop times
	for job := 1; job <= runs; job++ {
		for _, h := range []struct {
			n                node
			program, context string
			into             *times
		}{
			{fast, "rt-prolog", "prolog_slurmd", &launch},
			{real, "rt-prolog", "prolog_slurmd", &ready},
			{real, "rt-epilog", "epilog_slurmd", &stop},
		} {
			took, err := h.n.hook(h.program, h.context, job)
			if err != nil {
				return nil, err
			}
			*h.into = append(*h.into, took)
		}
	}
	if err := real.quiet(); err != nil {
		return nil, err
	}
	floor := shell.quantile(0.5)
	return []row{
		{what: "bash -c :, start to exit, median", figure: floor, unit: "ms"},
		{what: "  p95", figure: shell.quantile(0.95), unit: "ms"},
		{what: "rt-prolog, start to exit, its tracker launched, median", figure: launch.quantile(0.5), unit: "ms", budget: 2.5, floor: floor},
		{what: "  p95", figure: launch.quantile(0.95), unit: "ms", budget: 5},
		{what: "rt-prolog with the wait for the tracker's first reading, median", figure: ready.quantile(0.5), unit: "ms", budget: 12, floor: floor},
		{what: "  p95", figure: ready.quantile(0.95), unit: "ms"},
		{what: "rt-epilog, the last reading flushed and the file closed, median", figure: stop.quantile(0.5), unit: "ms", budget: 20, floor: floor},
		{what: "  p95", figure: stop.quantile(0.95), unit: "ms"},
	}, nil
}

func shellTimes(runs int) (times, error) {
	var t times
	for range runs {
		begin := time.Now()
		if err := exec.Command("bash", "-c", ":").Run(); err != nil {
			return nil, err
		}
		t = append(t, float64(time.Since(begin).Microseconds())/1000)
	}
	return t, nil
}

// instantTracker compiles a tracker that is ready at once: the remaining time is that of
// the hook.
func instantTracker(dir string) (string, error) {
	const source = "#include <unistd.h>\nint main(void) { return write(3, \"ready\\n\", 6) != 6; }\n"
	path := filepath.Join(dir, "instant-tracker")
	cmd := exec.Command("gcc", "-O2", "-static", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
}

// atOneHertz runs a tracker that reads once a second, with cold caches as on a real node,
// and reads its CPU time from the scheduler.
func atOneHertz(bin, dir string) ([]row, error) {
	const warm, span = 2 * time.Second, 10 * time.Second
	n, err := newNode(bin, dir, "hertz", "", "1s")
	if err != nil {
		return nil, err
	}
	if _, err := n.hook("rt-prolog", "prolog_slurmd", 1); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(n.state, "1@n1.json"))
	if err != nil {
		return nil, err
	}
	var note struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(text, &note); err != nil {
		return nil, err
	}
	time.Sleep(warm)
	before, err := cpuTime(note.PID)
	if err != nil {
		return nil, err
	}
	time.Sleep(span)
	after, err := cpuTime(note.PID)
	if err != nil {
		return nil, err
	}
	rss, err := statusMiB(note.PID, "VmRSS:")
	if err != nil {
		return nil, err
	}
	if _, err := n.hook("rt-epilog", "epilog_slurmd", 1); err != nil {
		return nil, err
	}
	return []row{
		{what: "rt-tracker at 1 Hz, all of it, per snapshot", figure: float64(after-before) / 1000 / span.Seconds(), unit: "us", budget: 400},
		{what: "rt-tracker, resident", figure: rss, unit: "MiB", budget: 9},
	}, n.quiet()
}

// cpuTime adds up the run time of a process's threads in ns, /proc/<pid>/task/<tid>/schedstat.
func cpuTime(pid int) (sum int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("the tracker %d is gone", pid)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			return 0, fmt.Errorf("%s: %w", f, err)
		}
		sum += ns
	}
	return sum, nil
}

// statusMiB reads a size of /proc/<pid>/status.
func statusMiB(pid int, name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s of process %d", name, pid)
}
