package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/layout"
)

// start is a watched job with its goroutine.
func start(tb testing.TB, opts Options, c ...cgroupfs.Candidate) *Job {
	tb.Helper()
	j, err := NewJob(c, layout.Slurm{}, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := j.Close(); err != nil {
			tb.Error(err)
		}
	})
	return j
}

// expect receives one event.
func expect(tb testing.TB, j *Job, want collect.JobEvent) {
	tb.Helper()
	if got := <-j.Events(); got != want {
		tb.Fatalf("event %v, want %v; watched: %v", got, want, j.Err())
	}
}

// through receives events until want, and returns those before it.
func through(tb testing.TB, j *Job, want collect.JobEvent) []collect.JobEvent {
	tb.Helper()
	var before []collect.JobEvent
	for e := range j.Events() {
		if e == want {
			break
		}
		before = append(before, e)
	}
	return before
}

func mkdir(tb testing.TB, name string) {
	tb.Helper()
	if err := os.MkdirAll(name, 0o755); err != nil {
		tb.Fatal(err)
	}
}

func remove(tb testing.TB, name string) {
	tb.Helper()
	if err := os.RemoveAll(name); err != nil {
		tb.Fatal(err)
	}
}

// put replaces a file in one step, so that no reading sees half of it, in the same
// inode, as the kernel's files are.
func put(tb testing.TB, name, text string) {
	tb.Helper()
	fd, err := unix.Open(name, unix.O_WRONLY, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, []byte(text), 0); err != nil {
		tb.Fatal(err)
	}
}

func TestNewJobRefuses(t *testing.T) {
	j, err := NewJob(nil, layout.Slurm{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "no place where it may appear") {
		t.Errorf("error %v", err)
	}
	if j != nil {
		_ = j.Close()
	}
}

// A v1 job from beginning to end: its path is made element by element, and the controllers
// appear one after another. Steps begin and end, and the hierarchies are removed in turn.
func TestLifeV1(t *testing.T) {
	root := t.TempDir()
	for _, c := range []string{"freezer", "cpuacct", "memory"} {
		mkdir(t, filepath.Join(root, c))
	}
	j := start(t, Options{Settle: time.Hour}, v1Candidate(root, "freezer", "cpuacct", "memory", "pids"))
	if got := read(t, j); got != (rt.JobReading{Phase: rt.JobPending}) {
		t.Fatalf("before: %+v", got)
	}
	if _, _, ok := j.Found(); ok {
		t.Fatal("found before it was made")
	}
	job := func(c string) string { return filepath.Join(root, c, "slurm/uid_1000/job_12") }
	mkdir(t, job("freezer")+"/step_extern/task_0")
	mkdir(t, job("memory"))
	write(t, job("memory")+"/memory.max_usage_in_bytes", "4096\n")
	mkdir(t, job("cpuacct"))
	write(t, job("cpuacct")+"/cpuacct.usage", "1000000\n")
	expect(t, j, collect.JobAppeared) // with cpuacct and memory, though pids never comes
	mkdir(t, job("cpuacct")+"/step_0/task_0")
	if got := read(t, j); got.Phase != rt.JobPresent || got.CPUUsage != some(1000) || got.MemPeak != some(4096) {
		t.Errorf("present: %+v", got)
	}

	put(t, job("cpuacct")+"/cpuacct.usage", "2000000\n")
	remove(t, job("cpuacct")+"/step_0")
	expect(t, j, collect.JobStepEnded)
	for _, c := range []string{"freezer", "cpuacct", "memory"} {
		remove(t, job(c))
	}
	through(t, j, collect.JobEnded)
	want := rt.JobReading{Phase: rt.JobGone, CPUUsage: some(2000), MemPeak: some(4096)}
	same(t, read(t, j), want)
	if layout, path, ok := j.Found(); layout != "slurm-v1" || path != job("cpuacct") || !ok {
		t.Errorf("Found = %s, %s, %t", layout, path, ok)
	}
}

// The watcher calls StepEnds and StepBegins before it delivers the event.
func TestStepEndsIsCalled(t *testing.T) {
	root := t.TempDir()
	mkdir(t, filepath.Join(root, "cpuacct"))
	var called, begun atomic.Int64
	j := start(t, Options{
		StepEnds: func(step string, stepds []int) {
			if step == "0" && slices.Equal(stepds, []int{absent + 50, absent + 51}) {
				called.Add(1)
			}
		},
		StepBegins: func(stepds []int) {
			if slices.Equal(stepds, []int{absent + 50, absent + 51}) {
				begun.Add(1)
			}
		},
	}, v1Candidate(root, "cpuacct"))
	job := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	staging := filepath.Join(root, "staging")
	write(t, staging+"/cgroup.procs", absentPIDs(50, 51))
	mkdir(t, staging+"/step_0/task_0")
	mkdir(t, filepath.Dir(job))
	if err := os.Rename(staging, job); err != nil { // with its files, as cgroupfs makes it
		t.Fatal(err)
	}
	through(t, j, collect.JobAppeared)
	if n := called.Load(); n != 0 {
		t.Errorf("called %d times before a step ended", n)
	}
	remove(t, job+"/step_0/task_0")
	through(t, j, collect.JobStepEnded)
	if called.Load() == 0 || begun.Load() == 0 {
		t.Errorf("called %d times at an end, %d at a beginning", called.Load(), begun.Load())
	}
}

// A controller that never appears does not keep the job from appearing.
func TestSettle(t *testing.T) {
	root := t.TempDir()
	j := start(t, Options{Settle: time.Millisecond}, v1Candidate(root, "freezer", "memory"))
	mkdir(t, filepath.Join(root, "freezer/slurm/uid_1000/job_12"))
	expect(t, j, collect.JobAppeared)
}

// A job that begins and ends within the settling time still has its events.
func TestGoneWhileSettling(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct", "memory"))
	j.state.settle = time.Hour
	dir := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	mkdir(t, dir)
	if got := j.step([]notice{{Mask: unix.IN_Q_OVERFLOW}}); len(got) != 0 || read(t, j).Phase != rt.JobPending {
		t.Errorf("without memory: %v", got)
	}
	remove(t, dir)
	if got := j.step([]notice{{Mask: unix.IN_Q_OVERFLOW}}); !slices.Equal(got, []collect.JobEvent{collect.JobAppeared, collect.JobEnded}) {
		t.Errorf("at the end: %v", got)
	}
}

// The v2 job: populated 0 announces the end before any directory is removed.
func TestLifeV2(t *testing.T) {
	root := t.TempDir()
	j := start(t, Options{ProcRoot: root}, v2Candidate(root))
	other := filepath.Join(root, "system.slice/n1_slurmstepd.scope")
	mkdir(t, filepath.Join(other, "job_1"))
	staging := filepath.Join(root, "staging")
	unpack(t, "v2-job.txtar", staging)
	dir := filepath.Join(other, "job_2")
	if err := os.Rename(staging, dir); err != nil { // with all its files, as cgroupfs makes it
		t.Fatal(err)
	}
	expect(t, j, collect.JobAppeared)
	if got := read(t, j); got.Pids != some(3) || got.CPUUsage != some(6399000) {
		t.Errorf("processes %v, CPU %v", got.Pids, got.CPUUsage)
	}
	put(t, dir+"/cpu.stat", "usage_usec 7777777\n")
	put(t, dir+"/step_batch/user/cpu.stat", "usage_usec 7500000\n")
	remove(t, dir+"/step_batch/user/task_0")
	expect(t, j, collect.JobStepEnded)
	put(t, dir+"/cpu.stat", "usage_usec 8888888\n")
	put(t, dir+"/cgroup.events", "populated 0\n")
	expect(t, j, collect.JobStepEnded)
	remove(t, dir)
	through(t, j, collect.JobEnded)
	if got := read(t, j); got.Phase != rt.JobGone || got.CPUUsage != some(7509000) || got.StepdCPUUsage != some(8888888-7509000) || got.MemCurrent.Valid() || got.Pids.Valid() {
		t.Errorf("gone: %+v", got)
	}
}

// Without an extern step the job's directory is removed after each step and made again:
// its counters go on where they were.
func TestReappears(t *testing.T) {
	root := t.TempDir()
	j := start(t, Options{}, v2Candidate(root))
	scope := filepath.Join(root, "system.slice/slurmstepd.scope")
	mkdir(t, scope)
	for round := uint64(1); round <= 3; round++ {
		staging := filepath.Join(root, "staging")
		write(t, staging+"/cpu.stat", "usage_usec 100\n")
		write(t, staging+"/memory.peak", fmt.Sprintf("%d\n", 5000-round))
		mkdir(t, staging+"/step_0/user/task_0")
		if err := os.Rename(staging, scope+"/job_2"); err != nil {
			t.Fatal(err)
		}
		expect(t, j, collect.JobAppeared)
		if got := read(t, j); got.Phase != rt.JobPresent || got.CPUUsage != some(100*round) || got.MemPeak != some(4999) {
			t.Errorf("round %d: %+v", round, got)
		}
		remove(t, scope+"/job_2")
		through(t, j, collect.JobEnded)
		if got := read(t, j); got.Phase != rt.JobGone || got.CPUUsage != some(100*round) {
			t.Errorf("after round %d: %+v", round, got)
		}
	}
}

// A tracker that starts late finds the job at once, and the first candidate is preferred
// to another layout's directory of the same job id.
func TestLateStart(t *testing.T) {
	root := t.TempDir()
	unpack(t, "v1-job.txtar", root)
	v2 := filepath.Join(root, "system.slice/n1_slurmstepd.scope/job_2")
	unpack(t, "v2-job.txtar", v2)
	j := start(t, Options{ProcRoot: root}, v2Candidate(root), v1Candidate(root, cgroupfs.ControllersV1[:]...))
	expect(t, j, collect.JobAppeared)
	if layout, path, _ := j.Found(); layout != "slurm-v2" || path != v2 {
		t.Errorf("found %s at %s", layout, path)
	}
	remove(t, filepath.Join(root, "cpuacct"))
	remove(t, v2)
	through(t, j, collect.JobEnded)
	if layout, _, _ := j.Found(); layout != "slurm-v2" {
		t.Errorf("the end made it %s", layout)
	}
}

// Controllers that are mounted together, one name a link to the other.
func TestMountedTogether(t *testing.T) {
	root := t.TempDir()
	mkdir(t, filepath.Join(root, "cpu,cpuacct"))
	for _, c := range []string{"cpu", "cpuacct"} {
		if err := os.Symlink("cpu,cpuacct", filepath.Join(root, c)); err != nil {
			t.Fatal(err)
		}
	}
	j := manual(t, v1Candidate(root, "cpu", "cpuacct"))
	dir := filepath.Join(root, "cpu,cpuacct/slurm/uid_1000/job_12")
	write(t, dir+"/cpuacct.usage", "9000\n")
	write(t, dir+"/cpu.stat", "throttled_time 8000\n")
	j.step([]notice{{Mask: unix.IN_Q_OVERFLOW}})
	if got := read(t, j); got.CPUUsage != some(9) || got.CPUThrottled != some(8) || j.state.tasks.Len() != 1 {
		t.Errorf("%d hierarchies, reading %+v", j.state.tasks.Len(), got)
	}
}

// v1 forgets what a removed directory had counted of memory events: it is kept.
func TestEventsOfEndedSteps(t *testing.T) {
	root := t.TempDir()
	unpack(t, "v1-job.txtar", root)
	j := start(t, Options{}, v1Candidate(root, "cpuacct", "memory"))
	expect(t, j, collect.JobAppeared)
	remove(t, filepath.Join(root, "memory/slurm/uid_1000/job_12/step_0"))
	remove(t, filepath.Join(root, "cpuacct/slurm/uid_1000/job_12/step_0"))
	expect(t, j, collect.JobStepEnded)
	if got := read(t, j); got.EventsMax != some(1261) || got.EventsOOMKill != some(1) {
		t.Errorf("limit hit %v times, %v killed", got.EventsMax, got.EventsOOMKill)
	}
}
