package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/layout"
)

// fixture is a job of v1 in directories that the test makes.
type fixture struct {
	t    *testing.T
	root string
	set  *taskSet
}

func (f *fixture) failed(e error) {
	if e != nil {
		f.t.Error(e)
	}
}

// newTaskFixture returns a fixture of a job without directories.
func newTaskFixture(t *testing.T) *fixture {
	f := &fixture{t: t, root: t.TempDir()}
	j, err := newJob([]cgroupfs.Candidate{v1Candidate(filepath.Join(f.root, "none"), "cpuacct")}, layout.Slurm{}, Options{})
	f.failed(err)
	s := &j.state
	s.files, f.set = newJobFiles(1, nil, ""), s.tasks
	f.set.Settle = 0
	t.Cleanup(func() {
		f.failed(s.err)
		f.failed(s.close())
	})
	return f
}

// newFixture makes the step 0 of a job with two tasks in these hierarchies.
func newFixture(t *testing.T, controllers ...string) *fixture {
	f := newTaskFixture(t)
	for _, c := range controllers {
		root := filepath.Join(f.root, c)
		f.set.AddHierarchy(root)
		f.enter(c, "", cgroupfs.Dir{})
		f.enter(c, "step_0", cgroupfs.Dir{Step: "0", Part: cgroupfs.PartStep})
		for i := range uint64(2) {
			f.enter(c, fmt.Sprintf("step_0/task_%d", i), cgroupfs.Dir{Step: "0", Task: rt.Some(i), Part: cgroupfs.PartTask})
		}
		f.set.AddController(root, c)
	}
	return f
}

func (f *fixture) enter(controller, path string, d cgroupfs.Dir) {
	name := filepath.Join(f.root, controller, path)
	f.failed(os.MkdirAll(name, 0o755))
	f.failed(os.WriteFile(filepath.Join(name, "cpuacct.usage"), []byte("1000\n"), 0o600))
	f.failed(os.WriteFile(filepath.Join(name, "cgroup.procs"), nil, 0o600))
	f.set.Enter(1, filepath.Join(f.root, controller), name, d)
}

// procs writes the processes of a task, as slurmstepd does.
func (f *fixture) procs(controller string, task int, pids ...int) string {
	text := ""
	for _, pid := range pids {
		text += fmt.Sprintln(pid)
	}
	dir := filepath.Join(f.root, controller, fmt.Sprintf("step_0/task_%d", task))
	f.failed(os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(text), 0o600))
	return dir
}

func (f *fixture) join(controller string, task int, pids ...int) {
	f.set.ProcessJoined(f.procs(controller, task, pids...))
}

func (f *fixture) task(number uint64) *group {
	i := slices.IndexFunc(f.set.groups, func(g *group) bool { return g.r.Task == rt.Some(number) })
	if i < 0 {
		f.t.Fatalf("no task %d", number)
	}
	return f.set.groups[i]
}

// A task with many short processes is looked at a limited number of times between two
// readings; it never has more than one descriptor.
func TestTaskOfManyProcesses(t *testing.T) {
	f := newFixture(t, "cpuacct")
	f.join("cpuacct", 0, os.Getpid())
	task := f.task(0)
	task.unwatch()
	task.task.looks = maxLooks
	for range maxLooks + 5 {
		c := exec.Command("/bin/sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		f.procs("cpuacct", 0, c.Process.Pid)
		f.set.watchExit(task)
		_ = c.Process.Kill()
		_ = c.Wait()
		f.set.ProcessExited(task.task.pidfd) // the list still has the one that ended
	}
	if task.task.looks != 0 || task.task.pidfd >= 0 || task.isFinal {
		t.Errorf("looks %d, descriptor %d, final %t", task.task.looks, task.task.pidfd, task.isFinal)
	}
}

// If listed processes of a task cannot be waited for, as in another pid namespace, the task
// is not looked at again and again.
func TestProcessesThatCannotBeWaitedFor(t *testing.T) {
	f := newFixture(t, "cpuacct")
	f.join("cpuacct", 0, absent)
	task := f.task(0)
	var s rt.Snapshot
	for _, g := range f.set.List() {
		f.set.ReadGroup(g, &s)
	}
	if len(s.Steps) != 2 || task.task.looks < maxLooks-2 {
		t.Errorf("%d readings; the task was looked at %d times", len(s.Steps), maxLooks-task.task.looks)
	}
}

// A thread can have the number of a process that ended. The next process is still waited for.
func TestThreadWithTheNumberOfAProcess(t *testing.T) {
	f := newFixture(t, "cpuacct")
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	tid, err := strconv.Atoi(threads[len(threads)-1].Name())
	if err != nil {
		t.Fatal(err)
	}
	f.join("cpuacct", 0, tid)
	f.join("cpuacct", 1, os.Getpid())
	if f.task(0).task.pidfd >= 0 || f.task(1).task.pidfd < 0 {
		t.Errorf("waits for thread %d: %d, and for this process: %d", tid, f.task(0).task.pidfd, f.task(1).task.pidfd)
	}
}

// In the last milliseconds of a step of many tasks no list of processes is read again for
// each task that ends.
func TestTasksAreMatchedOnce(t *testing.T) {
	f := newFixture(t, "cpuacct", "memory")
	for i := range 2 {
		for _, c := range []string{"cpuacct", "memory"} {
			f.join(c, i, absent+100*(i+1))
		}
	}
	first, second := f.task(0), f.task(1)
	f.procs("cpuacct", 0)
	f.procs("memory", 0)
	f.procs("cpuacct", 1, absent+300)
	f.procs("memory", 1, absent+300)
	first.unwatch()
	f.set.watchExit(first)
	if !first.isFinal || !slices.Equal(second.task.seen, []int{absent + 200}) {
		t.Errorf("final %t; the other task has the processes %d", first.isFinal, second.task.seen)
	}
	step := filepath.Join(f.root, "cpuacct/step_0")
	f.set.ReadEnding(filepath.Join(f.root, "cpuacct"), step, "0", true)
	looks := second.task.looks
	f.set.ReadEnding(filepath.Join(f.root, "memory"), filepath.Join(f.root, "memory/step_0"), "0", true)
	if second.task.looks != looks || !second.task.isLastRead {
		t.Error("the removal in the second hierarchy had the task looked at again")
	}
}

// A task is reported after slurmstepd has put its processes where they stay.
func TestTasksSettle(t *testing.T) {
	f := newFixture(t, "cpuacct", "memory")
	f.join("cpuacct", 1, absent+7)
	g := f.task(1)
	if f.set.isSettled(g, f.set.Len()) {
		t.Error("a task of one hierarchy is reported")
	}
	f.join("memory", 0, absent+7)
	f.set.Settle = time.Hour
	if f.set.isSettled(g, f.set.Len()) || g.r.Task != rt.Some[uint64](0) {
		t.Errorf("task %v is reported at once", g.r.Task)
	}
	f.set.Settle = 0
	if !f.set.isSettled(g, f.set.Len()) {
		t.Error("it is not reported later")
	}
}

// With v2 the events of a step's first and last process are the same. The step is not at
// its end while it has a process in any directory, even if its task was read at an end
// before.
func TestFirstProcessOfStepV2(t *testing.T) {
	f := newTaskFixture(t)
	f.set.AddHierarchy(f.root)
	file := func(name, text string) { f.failed(os.WriteFile(filepath.Join(f.root, name), []byte(text), 0o600)) }
	const user, task, special = "step_0/user", "step_0/user/task_0", "step_0/user/task_special"
	for _, d := range []struct {
		name string
		at   cgroupfs.Dir
	}{
		{"", cgroupfs.Dir{}}, {"step_0", cgroupfs.Dir{Step: "0", Part: cgroupfs.PartStep}}, {user, cgroupfs.Dir{Step: "0", Part: cgroupfs.PartUser}},
		{task, cgroupfs.Dir{Step: "0", Task: rt.Some[uint64](0), Part: cgroupfs.PartUserTask}},
		{special, cgroupfs.Dir{Step: "0", Part: cgroupfs.PartUserTask}},
	} {
		f.failed(os.MkdirAll(filepath.Join(f.root, d.name), 0o755))
		file(filepath.Join(d.name, "cpu.stat"), "usage_usec 10\nuser_usec 10\nsystem_usec 0\n")
		file(filepath.Join(d.name, "cgroup.procs"), "")
		f.set.Enter(2, f.root, filepath.Join(f.root, d.name), d.at)
	}
	f.set.AddController(f.root, cgroupfs.Unified)
	step := f.set.groups[0]
	changed := func(name string) { f.set.ReadEnding(f.root, filepath.Join(f.root, name), "0", false) }
	want := func(when string, isFinal bool) {
		t.Helper()
		if step.isFinal != isFinal {
			t.Errorf("%s: the step was read at its end: %t", when, step.isFinal)
		}
	}

	file(user+"/cgroup.events", "populated 1\n")
	file(task+"/cgroup.procs", fmt.Sprintln(os.Getpid()))
	changed(user) // before the event of the task
	want("its first process", false)
	changed(task)
	file(task+"/cgroup.procs", "")
	file(special+"/cgroup.procs", fmt.Sprintln(os.Getpid()))
	changed(task)
	want("a process that left its task", false)
	file(special+"/cgroup.procs", "")
	changed(user)
	want("a process that the kernel still counts", false)
	file(user+"/cgroup.events", "populated 0\n")
	changed(user)
	want("its last process", true)
	file(user+"/cgroup.events", "populated 1\n")
	file(task+"/cgroup.procs", fmt.Sprintln(os.Getpid()))
	changed(user)
	want("another process", false)
	changed(task)
	if own := f.task(0); own.isFinal {
		t.Error("a task with a process was read at its end")
	}
}
