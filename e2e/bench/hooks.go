package main

import (
	"errors"
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

// newNode makes the directories of a node.
func newNode(bin, dir, name string) (node, error) {
	n := node{bin: bin, dir: filepath.Join(dir, name)}
	n.config, n.state = filepath.Join(n.dir, "rt.toml"), filepath.Join(stateRoot(dir), name, "state")
	for _, d := range []string{n.spool(), n.state} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return n, err
		}
	}
	return n, nil
}

// configure writes rt.toml for the jobs that start from now on, with the given tracker,
// empty for the real one. A reading at the start is not followed by more frequent ones.
func (n node) configure(tracker, user, interval string) error {
	if tracker == "" {
		tracker = filepath.Join(n.bin, "rt-tracker")
	}
	text := fmt.Sprintf("[spool]\ndir = %q\nuser = %q\n[tracker]\npath = %q\ninterval = %q\nfirst_for = \"0s\"\nstate_dir = %q\n"+
		"[hooks]\nready_timeout = \"10s\"\nstop_timeout = \"10s\"\ndisable_file = %q\n[log]\ntarget = %q\n",
		n.spool(), user, tracker, interval, n.state, filepath.Join(n.dir, "disabled"), n.log())
	return os.WriteFile(n.config, []byte(text), 0o644)
}

func (n node) spool() string { return filepath.Join(n.dir, "spool") }

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
		"SLURM_JOB_ID=" + strconv.Itoa(job), "SLURMD_NODENAME=" + nodeName(), "SLURM_CLUSTER_NAME=bench", "SLURM_SCRIPT_CONTEXT=" + context,
		"SLURM_JOB_UID=0", "SLURM_JOB_GID=0", "SLURM_JOB_USER=root", "SLURM_NODELIST=" + nodeName(), "SLURM_JOB_NUM_NODES=1",
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
	fast, err := newNode(bin, dir, "instant")
	if err != nil {
		return nil, err
	}
	real, err := newNode(bin, dir, "real")
	if err != nil {
		return nil, err
	}
	err = errors.Join(fast.configure(instant, "root", "10s"), real.configure("", "root", "10s"))
	if err != nil {
		return nil, err
	}
	work, err := buildWork(dir)
	if err != nil {
		return nil, err
	}
	var launch, ready, stop times
	jobs := &bare{node: real, work: work}
	for id := 1; id <= runs; id++ {
		jobs.last = id
		for _, step := range []func() error{
			func() error { return launch.add(fast, "rt-prolog", "prolog_slurmd", id) },
			func() error { return ready.add(real, "rt-prolog", "prolog_slurmd", id) },
			func() error { return jobs.pass(&job{id: id}) },
			func() error { return stop.add(real, "rt-epilog", "epilog_slurmd", id) },
		} {
			if err := step(); err != nil {
				return nil, err
			}
		}
	}
	if err := jobs.close(); err != nil {
		return nil, err
	}
	if err := real.quiet(); err != nil {
		return nil, err
	}
	sync, err := syncTimes(real.dir, runs)
	if err != nil {
		return nil, err
	}
	floor := shell.quantile(0.5)
	return []row{
		{what: "bash -c :, start to exit, median", figure: floor, unit: "ms"},
		{what: "  p95", figure: shell.quantile(0.95), unit: "ms"},
		{what: "rt-prolog, start to exit, with a tracker that is ready at once, median", figure: launch.quantile(0.5), unit: "ms", budget: 3.2, floor: floor, planned: plannedShell},
		{what: "  p95", figure: launch.quantile(0.95), unit: "ms", budget: 5},
		{what: "rt-prolog with the wait for the tracker's first reading, median", figure: ready.quantile(0.5), unit: "ms", budget: 12, floor: floor, planned: plannedShell},
		{what: "  p95", figure: ready.quantile(0.95), unit: "ms"},
		{what: "rt-epilog, the last reading flushed and the file closed, median", figure: stop.quantile(0.5), unit: "ms", budget: 15, floor: floor, planned: plannedShell},
		{what: "  p95", figure: stop.quantile(0.95), unit: "ms"},
		{what: "write and fsync of 4 KiB on the file system of the spool, median", figure: sync.quantile(0.5), unit: "ms"},
		{what: "  p95", figure: sync.quantile(0.95), unit: "ms"},
	}, nil
}

// add runs a hook and adds the time that it took.
func (t *times) add(n node, program, context string, id int) error {
	took, err := n.hook(program, context, id)
	*t = append(*t, took)
	return err
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

// instantTracker compiles a tracker that is ready at once: the remaining time is that of the hook. It has no C
// library: the start of one takes 0.3 ms where the hypervisor emulates CPUID.
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
