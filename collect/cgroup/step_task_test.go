package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// steps reads the job and returns its steps and tasks, and the snapshot.
func steps(tb testing.TB, j *Job) ([]rt.StepReading, *rt.Snapshot) {
	tb.Helper()
	var s rt.Snapshot
	if err := j.Read(&s); err != nil {
		tb.Fatal(err)
	}
	return s.Steps, &s
}

func sameSteps(tb testing.TB, what string, got []rt.StepReading, want ...rt.StepReading) {
	tb.Helper()
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b })); d != "" {
		tb.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// group writes the files of one cgroup of v2.
func (s *shareJob) group(dir string, usage, memory uint64, pids string) {
	s.cpu(dir, usage)
	at := func(name string) string { return filepath.Join(s.dir, dir, name) }
	write(s.t, at("memory.current"), fmt.Sprintln(memory))
	write(s.t, at("memory.peak"), fmt.Sprintln(2*memory))
	write(s.t, at("memory.stat"), fmt.Sprintf("anon %d\nfile 2\nshmem 1\npgfault 30\npgmajfault 3\n", memory-2))
	write(s.t, at("memory.events"), "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n")
	write(s.t, at("cgroup.procs"), pids)
}

func readingOf(step string, task rt.Opt[uint64], usage, memory, pids uint64) rt.StepReading {
	return rt.StepReading{
		Step: step, Task: task,
		CPUUsage: some(usage), CPUUser: some(usage - usage/4), CPUSystem: some(usage / 4),
		MemCurrent: some(memory), MemPeak: some(2 * memory), Anon: some(memory - 2), File: some(2), Shmem: some(1),
		PageFaults: some(30), MajorFaults: some(3), EventsOOMKill: some(1), Pids: some(pids),
	}
}

// A step of two unequal tasks: each has its own figures, and the figures of its end are in
// each reading until one was written.
func TestSteps(t *testing.T) {
	s := newShareJob(t)
	none := rt.None[uint64]()
	write(t, filepath.Join(s.dir, "step_0/user/cgroup.events"), "populated 1\n")
	s.group("step_0/user", 1000, 900, "")
	s.group("step_0/user/task_0", 900, 600, absentPIDs(11, 12))
	s.group("step_0/user/task_1", 100, 300, absentPIDs(13))
	write(t, filepath.Join(s.dir, "step_0/slurm/cgroup.procs"), absentPIDs(10))
	s.total(1010)
	s.look()
	whole, first, second := readingOf("0", none, 1000, 900, 3), readingOf("0", some(0), 900, 600, 2), readingOf("0", some(1), 100, 300, 1)
	got, _ := steps(t, s.j)
	sameSteps(t, "while it runs", got, whole, first, second)

	last := filepath.Join(s.dir, "step_0/user/task_1")
	write(t, last+"/cgroup.procs", "")
	s.j.step([]notice{{Dir: last + "/cgroup.events", Mask: unix.IN_MODIFY}})
	s.end("step_0/user/task_1")
	second.Pids, second.Ended = some(0), true
	for range 2 { // a reading at an event is not written
		got, _ = steps(t, s.j)
		sameSteps(t, "a task ended", got, readingOf("0", none, 1000, 900, 2), first, second)
	}
	_, snap := steps(t, s.j)
	s.j.Written(snap)
	got, _ = steps(t, s.j)
	sameSteps(t, "it was written", got, readingOf("0", none, 1000, 900, 2), first)

	remove(t, s.dir)
	s.j.state.removed(s.dir)
	whole.Pids, whole.Ended, first.Ended = some(2), true, true
	got, snap = steps(t, s.j)
	sameSteps(t, "the job is gone", got, whole, first)
	s.j.Written(snap)
	if got, _ := steps(t, s.j); len(got) != 0 {
		t.Errorf("written twice: %v", got)
	}
}

// A step of v1 has a directory in each hierarchy, and ends with the last of them.
func TestStepsV1(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct", "memory", "freezer"))
	in := func(controller, name string) string {
		return filepath.Join(root, controller, "slurm/uid_1000/job_12/step_0", name)
	}
	for _, task := range []string{"", "task_3"} {
		write(t, in("cpuacct", task+"/cpuacct.usage"), "7000000\n")
		write(t, in("cpuacct", task+"/cpuacct.usage_user"), "6000000\n")
		write(t, in("cpuacct", task+"/cpuacct.usage_sys"), "1000000\n")
		write(t, in("memory", task+"/memory.max_usage_in_bytes"), "8192\n")
		write(t, in("memory", task+"/memory.usage_in_bytes"), "4096\n")
	}
	write(t, in("memory", "memory.oom_control"), "oom_kill 1\n")
	write(t, in("memory", "task_3/memory.oom_control"), "oom_kill 2\n")
	for _, c := range []string{"cpuacct", "memory", "freezer"} {
		write(t, in(c, "task_3/cgroup.procs"), absentPIDs(5, 6))
	}
	write(t, in("freezer", "cgroup.procs"), absentPIDs(4))
	j.state.tasks.Settle = 0
	j.step(nil)
	j.state.watch.Look()
	j.state.schedule(j.state.deadline)
	want := func(task rt.Opt[uint64], kills, pids uint64) rt.StepReading {
		return rt.StepReading{Step: "0", Task: task, CPUUsage: some(7000), CPUUser: some(6000), CPUSystem: some(1000),
			MemCurrent: some(4096), MemPeak: some(8192), EventsOOMKill: some(kills), Pids: some(pids)}
	}
	whole, task := want(rt.None[uint64](), 3, 3), want(some(3), 2, 2)
	got, _ := steps(t, j)
	sameSteps(t, "while it runs", got, whole, task)
	remove(t, in("cpuacct", ""))
	j.state.removed(in("cpuacct", ""))
	if got, _ := steps(t, j); len(got) != 2 || got[0].Ended || got[0].CPUUsage != some(7000) {
		t.Errorf("one hierarchy is left: %+v", got)
	}
	for _, c := range []string{"memory", "freezer"} {
		remove(t, in(c, ""))
		j.state.removed(in(c, ""))
	}
	got, _ = steps(t, j)
	if len(got) != 2 || !got[0].Ended || !got[1].Ended || got[0].EventsOOMKill != some(3) || got[1].CPUUsage != some(7000) {
		t.Errorf("all are gone: %+v", got)
	}
}

// With more steps and tasks than can be held open, some are left out, which is logged
// once.
func TestTooManySteps(t *testing.T) {
	s := newShareJob(t)
	for i := range 256 + 10 {
		mkdir(t, filepath.Join(s.dir, fmt.Sprintf("step_%d/user", i)))
	}
	s.look()
	got, _ := steps(t, s.j)
	if len(got) != 256 {
		t.Errorf("%d steps are read", len(got))
	}
	notes := s.j.Notes()
	if len(notes) != 1 || notes[0].Name != "steps" || !strings.Contains(notes[0].Detail, "256") || notes[0].Time.IsZero() {
		t.Errorf("notes %+v", notes)
	}
	if again := s.j.Notes(); again != nil {
		t.Errorf("logged twice: %v", again)
	}
}

// Without its steps a job costs less; those that end are still reported.
func TestSkipSteps(t *testing.T) {
	s := newShareJob(t)
	s.group("step_0/user", 1000, 900, absentPIDs(1))
	s.look()
	s.j.SkipSteps(true)
	if got, _ := steps(t, s.j); len(got) != 0 {
		t.Errorf("steps %+v", got)
	}
	s.end("step_0")
	if got, _ := steps(t, s.j); len(got) != 1 || !got[0].Ended {
		t.Errorf("at its end %+v", got)
	}
	s.j.SkipSteps(false)
	s.group("step_1/user", 1000, 900, absentPIDs(1))
	s.look()
	if got, _ := steps(t, s.j); len(got) != 2 {
		t.Errorf("included again: %+v", got)
	}
}
