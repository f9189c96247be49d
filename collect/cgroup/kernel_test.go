package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// burnEnv makes the test binary a process of a job: its value names the cgroups to
// join.
const burnEnv = "RT_TEST_BURN"

func TestMain(m *testing.M) {
	if dirs := os.Getenv(burnEnv); dirs != "" {
		if err := burn(filepath.SplitList(dirs)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// burn joins cgroups, prints the CPU time that it had used by then in nanoseconds,
// uses 0.2 s more and touches 32 MiB.
func burn(dirs []string) error {
	for _, d := range dirs {
		if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	before, err := usedCPU()
	if err != nil {
		return err
	}
	fmt.Println(before.Nanoseconds())
	memory := make([]byte, 32<<20)
	for used := before; used < before+200*time.Millisecond; {
		for i := 0; i < len(memory); i += 4096 {
			memory[i]++
		}
		if used, err = usedCPU(); err != nil {
			return err
		}
	}
	return nil
}

func usedCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// kernelJob is a real job's tree in this machine's cgroups.
type kernelJob struct {
	candidate cgroupfs.Candidate
	above     []string // what was made for it besides its own directories, the deepest first
	dirs      []string // the job's directory in each hierarchy
	task      string   // of the process, below each of dirs
	daemon    string   // v2: of slurmstepd
}

func (k *kernelJob) make(tb testing.TB) {
	tb.Helper()
	for _, d := range k.dirs {
		mkdir(tb, filepath.Join(d, k.task))
		mkdir(tb, filepath.Join(d, k.daemon))
	}
}

// run executes the burner in a directory of the job and returns the CPU time that it used there.
func (k *kernelJob) run(tb testing.TB, in string) time.Duration {
	tb.Helper()
	var dirs []string
	for _, d := range k.dirs {
		dirs = append(dirs, filepath.Join(d, in))
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), burnEnv+"="+strings.Join(dirs, string(filepath.ListSeparator)))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("the job's process: %v", err)
	}
	before, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		tb.Fatalf("the job's process printed %q", out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - time.Duration(before)
}

// end removes the job's directories as the resource manager does, the deepest first, and
// waits for the watcher to report the task's.
func (k *kernelJob) end(tb testing.TB, j *Job) {
	tb.Helper()
	for _, d := range k.dirs {
		rmdir(tb, filepath.Join(d, k.task))
		if k.daemon != "" {
			rmdir(tb, filepath.Join(d, k.daemon))
		}
	}
	if j != nil {
		expect(tb, j, collect.JobStepEnded)
	}
	for _, d := range k.dirs {
		for p := filepath.Dir(k.task); p != "."; p = filepath.Dir(p) {
			rmdir(tb, filepath.Join(d, p))
		}
		rmdir(tb, d)
	}
}

// clean removes all that is left, in a test that failed too.
func (k *kernelJob) clean() {
	for _, d := range k.dirs {
		_ = os.Remove(filepath.Join(d, k.daemon))
		for p := k.task; p != "."; p = filepath.Dir(p) {
			_ = os.Remove(filepath.Join(d, p))
		}
		_ = os.Remove(d)
	}
	for _, d := range k.above {
		_ = os.Remove(d)
	}
}

// rmdir removes a cgroup; the kernel may still be busy with its last process.
func rmdir(tb testing.TB, dir string) {
	tb.Helper()
	var err error
	for range 2000 {
		if err = syscall.Rmdir(dir); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	tb.Fatalf("rmdir %s: %v", dir, err)
}

func mounts(tb testing.TB) cgroupfs.Mounts {
	tb.Helper()
	m, err := cgroupfs.ReadMounts("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	if os.Geteuid() != 0 {
		tb.Skip("making cgroups takes root")
	}
	return m
}

func kernelV1(tb testing.TB) *kernelJob {
	tb.Helper()
	m := mounts(tb)
	k := &kernelJob{task: "step_0/task_0", candidate: cgroupfs.Candidate{Layout: "slurm-v1", Version: 1, Dirs: map[string]string{}}}
	for _, c := range []string{"freezer", "cpuacct", "memory"} {
		if m.V1[c] == "" {
			tb.Skipf("this machine has no v1 controller %s", c)
		}
		top := filepath.Join(m.V1[c], fmt.Sprintf("rt-test-%d", os.Getpid()))
		if err := os.MkdirAll(top, 0o755); err != nil {
			tb.Skipf("cgroups cannot be made here: %v", err)
		}
		dir := filepath.Join(top, "uid_1000/job_12")
		k.candidate.Dirs[c] = dir
		k.dirs = append(k.dirs, dir)
		k.above = append(k.above, filepath.Dir(dir), top)
	}
	tb.Cleanup(k.clean)
	return k
}

func kernelV2(tb testing.TB) *kernelJob {
	tb.Helper()
	m := mounts(tb)
	if m.V2 == "" {
		tb.Skip("this machine has no cgroup v2")
	}
	control, err := os.ReadFile(filepath.Join(m.V2, "cgroup.controllers"))
	if err != nil || !strings.Contains(string(control), "memory") {
		tb.Skipf("cgroup v2 at %s has no memory controller: %q, %v", m.V2, control, err)
	}
	scope := filepath.Join(m.V2, fmt.Sprintf("rt-test-%d.scope", os.Getpid()))
	k := &kernelJob{
		task: "step_0/user/task_0", daemon: "step_0/slurm", above: []string{scope},
		candidate: cgroupfs.Candidate{Layout: "slurm-v2", Version: 2, Dirs: map[string]string{cgroupfs.Unified: filepath.Join(m.V2, "rt-*.scope/job_12")}},
		dirs:      []string{filepath.Join(scope, "job_12")},
	}
	tb.Cleanup(k.clean)
	enable(tb, m.V2)
	mkdir(tb, scope)
	enable(tb, scope)
	return k
}

func enable(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu +memory"), 0o644); err != nil {
		tb.Skipf("controllers cannot be enabled here: %v", err)
	}
}

func TestKernelV1(t *testing.T) { testKernel(t, kernelV1(t)) }
func TestKernelV2(t *testing.T) { testKernel(t, kernelV2(t)) }

// testKernel follows two runs of a job in real cgroups from before they exist to after they
// are gone. No CPU time is lost or counted twice.
func testKernel(t *testing.T, k *kernelJob) {
	j := start(t, Options{}, k.candidate)
	if got := read(t, j); got.Phase != rt.JobPending {
		t.Fatalf("before: %v", got.Phase)
	}
	var used, daemons time.Duration
	for round := range 2 {
		k.make(t)
		expect(t, j, collect.JobAppeared)
		if round == 0 {
			checkAllocs(t, j)
		}
		if k.daemon != "" {
			daemons += k.run(t, k.daemon)
			expect(t, j, collect.JobStepEnded) // no process is in the job now
		}
		used += k.run(t, k.task)
		k.end(t, j)
		through(t, j, collect.JobEnded)
		got := read(t, j)
		if got.Phase != rt.JobGone {
			t.Errorf("after the end: %v", got.Phase)
		}
		checkUsage(t, "the job", got.CPUUsage, used)
		if k.daemon != "" {
			checkUsage(t, "slurmstepd", got.StepdCPUUsage, daemons)
		}
		if peak, ok := got.MemPeak.Get(); ok && peak < 32<<20 {
			t.Errorf("peak of %d bytes is less than the process touched", peak)
		}
	}
	if err := j.Err(); err != nil {
		t.Error(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for watched := range j.state.watch.byPath {
		if strings.Contains(watched, "job_12") {
			t.Errorf("%s is still watched", watched)
		}
	}
}

// checkUsage compares the last reading with getrusage: within 1 %, or two ticks of
// a kernel that counts CPU time by the tick.
func checkUsage(t *testing.T, name string, got rt.Opt[uint64], used time.Duration) {
	t.Helper()
	usage, ok := got.Get()
	diff := time.Duration(usage)*time.Microsecond - used
	t.Logf("%s: cgroup %d us, getrusage %v, difference %v", name, usage, used, diff)
	if !ok || diff.Abs() > max(used/100, 20*time.Millisecond) {
		t.Errorf("CPU time of %s: %d us (%t), getrusage %v", name, usage, ok, used)
	}
}

func TestKernelProcsV1(t *testing.T) { k := kernelV1(t); testKernelProcs(t, k, ".") }
func TestKernelProcsV2(t *testing.T) { k := kernelV2(t); testKernelProcs(t, k, k.daemon) }

// testKernelProcs lists the processes of a job without its daemon, which sits in a
// directory of its own. There are more processes than one page of cgroup.procs holds. They
// come right after a reading that saw none.
func testKernelProcs(t *testing.T, k *kernelJob, daemon string) {
	k.make(t)
	mkdir(t, filepath.Join(k.dirs[0], daemon))
	t.Cleanup(func() { _ = os.Remove(filepath.Join(k.dirs[0], daemon)) })
	j := manual(t, k.candidate)
	if got := read(t, j); got.Pids != some(0) {
		t.Errorf("processes %v, want none", got.Pids)
	}
	const n = 40
	want := map[int]bool{}
	for i := range n + 1 {
		dir := k.task
		if i == n {
			dir = daemon
		}
		c := exec.Command("/bin/sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		procs := filepath.Join(k.dirs[0], dir, "cgroup.procs")
		if err := os.WriteFile(procs, fmt.Append(nil, c.Process.Pid), 0o644); err != nil {
			t.Fatal(err)
		}
		want[c.Process.Pid] = i < n
	}
	j.state.buf = make(procfile.Buffer, 64) // many pages
	pids := j.Procs(nil)
	if len(pids) != n {
		t.Errorf("%d pids, want %d", len(pids), n)
	}
	for _, p := range pids {
		if !want[p] {
			t.Errorf("pid %d is not the job's", p)
		}
	}
	daemons := j.state.tasks.Daemons(nil)
	if isJobs, known := want[append(daemons, 0)[0]]; len(daemons) != 1 || isJobs || !known {
		t.Errorf("daemons %v", daemons)
	}
	if got := read(t, j); got.Pids != some(n) {
		t.Errorf("processes %v", got.Pids)
	}
}

func BenchmarkKernelV1(b *testing.B) { benchmarkKernel(b, kernelV1(b)) }
func BenchmarkKernelV2(b *testing.B) { benchmarkKernel(b, kernelV2(b)) }

func benchmarkKernel(b *testing.B, k *kernelJob) {
	k.make(b)
	j := manual(b, k.candidate)
	var s rt.Snapshot
	for range 10 {
		_ = j.Read(&s)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Steps = s.Steps[:0]
		if err := j.Read(&s); err != nil {
			b.Fatal(err)
		}
	}
	k.end(b, nil)
}
