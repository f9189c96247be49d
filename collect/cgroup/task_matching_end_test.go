package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// pairJob is a v1 job with a step. The test makes the directories of its tasks in several
// hierarchies.
type pairJob struct {
	t    *testing.T
	root string
	j    *Job
}

// newPairJob makes the directories that are named by hierarchy and number.
func newPairJob(t *testing.T, tasks ...string) *pairJob {
	s := &pairJob{t: t, root: t.TempDir()}
	for _, c := range []string{"cpuacct", "memory"} {
		s.used(c, "", 0)
	}
	for _, at := range tasks {
		c, task, _ := strings.Cut(at, " ")
		s.used(c, task, 0)
		s.procs(c, task)
	}
	s.j = manual(t, v1Candidate(s.root, "cpuacct", "memory"))
	s.j.state.tasks.Settle = 0
	s.j.step(nil)
	return s
}

func (s *pairJob) dir(controller, task string) string {
	if task != "" {
		task = "task_" + task
	}
	return filepath.Join(s.root, controller, "slurm/uid_1000/job_12/step_0", task)
}

// used writes the counter of a task in a hierarchy, or of the step with "": microseconds
// or bytes.
func (s *pairJob) used(controller, task string, n int) {
	name := map[string]string{"cpuacct": "cpuacct.usage", "memory": "memory.max_usage_in_bytes"}[controller]
	write(s.t, filepath.Join(s.dir(controller, task), name), fmt.Sprintln(n*map[string]int{"cpuacct": 1000, "memory": 1}[controller]))
}

// procs writes a task's list of processes in a hierarchy, as slurmstepd does.
func (s *pairJob) procs(controller, task string, pids ...int) {
	text := ""
	for _, pid := range pids {
		text += fmt.Sprintln(pid)
	}
	write(s.t, filepath.Join(s.dir(controller, task), "cgroup.procs"), text)
}

// empty truncates files that are open.
func (s *pairJob) empty(names ...string) {
	for _, name := range names {
		if err := os.Truncate(name, 0); err != nil {
			s.t.Fatal(err)
		}
	}
}

// drain handles all events that are pending.
func (s *pairJob) drain() {
	for {
		notices, err := s.j.state.watch.Wait(time.Now(), s.j.state.epoll.FD())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		s.j.step(notices)
	}
}

// gone removes the step from all hierarchies at once.
func (s *pairJob) gone() {
	for _, c := range []string{"memory", "cpuacct"} {
		remove(s.t, s.dir(c, ""))
	}
	s.drain()
}

// want reads the job and compares its tasks: "number cpu peak", "-" for an absent figure.
func (s *pairJob) want(what string, want ...string) {
	s.t.Helper()
	all, _ := steps(s.t, s.j)
	var got []string
	for _, r := range all {
		if n, ok := r.Task.Get(); ok {
			got = append(got, fmt.Sprint(n, " ", shown(r.CPUUsage), " ", shown(r.MemPeak)))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func shown(v rt.Opt[uint64]) string {
	if n, ok := v.Get(); ok {
		return fmt.Sprint(n)
	}
	return "-"
}

// A task that ends before any reading has the figures of all hierarchies. It does not
// matter which of them reports the end first, or whether anything can be read at its
// removal.
func TestTaskEndsBeforeAReading(t *testing.T) {
	for _, order := range [][]string{{"cpuacct", "memory"}, {"memory", "cpuacct"}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			s := newPairJob(t, "cpuacct 0", "memory 0")
			pid, end := process(t)
			for _, c := range order { // the kernel reports in the order of registration
				s.procs(c, "0", pid)
			}
			s.drain()
			s.used("cpuacct", "0", 500)
			s.used("memory", "0", 4096)
			s.used("cpuacct", "", 500)
			s.empty(s.dir("cpuacct", "0")+"/cgroup.procs", s.dir("memory", "0")+"/cgroup.procs")
			s.drain()
			end()
			s.drain()
			s.empty(s.dir("cpuacct", "0")+"/cpuacct.usage", s.dir("memory", "0")+"/memory.max_usage_in_bytes")
			s.gone()
			s.want("after the end", "0 500 4096")
		})
	}
}

// The end of a process is also awaited if it was put into a task's directory before the
// directory was watched.
func TestProcessBeforeTheWatch(t *testing.T) {
	s := newPairJob(t)
	pid, end := process(t)
	for _, c := range []string{"cpuacct", "memory"} {
		s.procs(c, "0", pid)
		s.used(c, "0", 4096)
	}
	s.drain()
	s.empty(s.dir("cpuacct", "0")+"/cgroup.procs", s.dir("memory", "0")+"/cgroup.procs")
	end()
	s.j.step(nil)
	s.empty(s.dir("cpuacct", "0")+"/cpuacct.usage", s.dir("memory", "0")+"/memory.max_usage_in_bytes")
	s.gone()
	s.want("after the end", "0 4096 4096")
}

// A step is read when its tasks have ended, whatever directories they passed through.
func TestStepEndsBeforeAReading(t *testing.T) {
	s := newPairJob(t, "cpuacct 3", "memory 3", "memory 0")
	pid, end := process(t)
	for _, at := range []string{"cpuacct 3", "memory 3", "memory 0"} {
		c, task, _ := strings.Cut(at, " ")
		if task == "0" { // it has gone on
			s.empty(s.dir(c, "3") + "/cgroup.procs")
			s.drain()
		}
		s.procs(c, task, pid)
		s.drain()
	}
	s.empty(s.dir("cpuacct", "3")+"/cgroup.procs", s.dir("memory", "0")+"/cgroup.procs")
	s.drain()
	s.used("cpuacct", "", 500)
	end()
	s.drain()
	s.empty(s.dir("cpuacct", "") + "/cpuacct.usage")
	s.gone()
	if all, _ := steps(t, s.j); len(all) == 0 || all[len(all)-1].CPUUsage != some(500) && all[0].CPUUsage != some(500) {
		t.Errorf("the step's CPU time is lost: %+v", all)
	}
}

// The ledger names a step that was not read at its end, and a step that was never read.
func TestStepsThatAreNotRead(t *testing.T) {
	s := newPairJob(t)
	s.used("cpuacct", "", 500)
	steps(t, s.j)
	s.empty(s.dir("cpuacct", "") + "/cpuacct.usage")
	s.gone()
	for _, c := range []string{"cpuacct", "memory"} {
		job := filepath.Dir(s.dir(c, ""))
		if err := os.Mkdir(filepath.Join(job, "step_7"), 0o755); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(job, "step_7"))
	}
	s.drain()
	var got []string
	for _, e := range s.j.Notes() {
		got = append(got, e.Name+" "+e.Status+" "+e.Detail)
	}
	const event = "tasks estimated the end of step %d was not read; its figures are of the last reading before, or absent"
	if want := []string{fmt.Sprintf(event, 0), fmt.Sprintf(event, 7)}; !slices.Equal(got, want) {
		t.Errorf("the ledger has %q, want %q", got, want)
	}
}

// The ledger records that neither the last step was read at its end, nor the job after that.
func TestTheEndOfTheJobIsNotRead(t *testing.T) {
	for _, isJobRead := range []bool{false, true} {
		t.Run(fmt.Sprint(isJobRead), func(t *testing.T) {
			s := newPairJob(t)
			job := func(c string) string { return filepath.Dir(s.dir(c, "")) }
			s.used("cpuacct", "", 500)
			write(t, filepath.Join(job("cpuacct"), "cpuacct.usage"), "500000\n")
			steps(t, s.j)
			s.empty(s.dir("cpuacct", "") + "/cpuacct.usage")
			if !isJobRead {
				s.empty(filepath.Join(job("cpuacct"), "cpuacct.usage"))
			}
			s.gone()
			steps(t, s.j)
			for _, c := range []string{"memory", "cpuacct"} {
				remove(t, job(c))
			}
			s.drain()
			notes := s.j.Notes()
			hasEnd := slices.ContainsFunc(notes, func(e rt.Event) bool { return e.Name == "end" && strings.Contains(e.Detail, "a lower bound") })
			if hasEnd == isJobRead || len(notes) == 0 {
				t.Errorf("the job was read after the step's end: %v; the ledger has %v", isJobRead, notes)
			}
		})
	}
}

// Two tasks stay two: a directory with a process of one task is not assigned to the other.
// The other's process was seen nowhere, so it is not reported.
func TestTwoTasksStayTwo(t *testing.T) {
	s := newPairJob(t, "cpuacct 0", "cpuacct 1", "memory 0", "memory 1")
	s.used("cpuacct", "0", 10)
	s.used("cpuacct", "1", 20)
	s.used("memory", "0", 4096)
	s.procs("cpuacct", "1", absent+8)
	s.procs("memory", "0", absent+8)
	s.drain()
	s.want("one was seen", "0 20 4096")
}

// If only one hierarchy has directories of tasks, they keep their numbers.
func TestTasksOfOneHierarchy(t *testing.T) {
	s := newPairJob(t, "cpuacct 3", "cpuacct 5")
	s.procs("cpuacct", "3", absent+7)
	s.procs("cpuacct", "5", absent+8)
	s.drain()
	s.want("while they run", "3 0 -", "5 0 -")
	s.gone()
	s.want("after the end", "3 0 -", "5 0 -")
}

// On the second node, one task passes through memory's task_1, which is then the other
// task's; both were reported before.
func TestTaskMovesAfterItWasReported(t *testing.T) {
	s := newPairJob(t, "cpuacct 1", "cpuacct 3", "memory 1", "memory 3")
	for i, task := range []string{"1", "3"} {
		s.used("cpuacct", task, 10*(i+1))
		s.used("memory", task, 77+i)
		s.procs("cpuacct", task, absent+7+i)
		s.procs("memory", task, absent+7+i)
	}
	s.drain()
	s.want("on the way", "1 10 77", "3 20 78")
	move := func(pid int, from, to string, peak int) {
		s.procs("memory", from)
		s.used("memory", to, peak)
		s.procs("memory", to)
		s.drain()
		s.procs("memory", to, pid)
		s.drain()
		steps(t, s.j)
	}
	move(absent+7, "1", "0", 1000)
	s.want("one has moved", "1 10 1000", "3 20 78")
	move(absent+8, "3", "1", 2000)
	s.want("both have moved", "1 10 1000", "3 20 2000")
	s.gone()
	s.want("after the end", "1 10 1000", "3 20 2000")
}

// A task passes through memory's task_1 and ends before it is seen elsewhere. The next task
// in task_1 has the figures of the directory, and the first has no row.
func TestTaskLeavesUnseen(t *testing.T) {
	s := newPairJob(t, "cpuacct 1", "cpuacct 3", "memory 1", "memory 0")
	s.used("cpuacct", "1", 10)
	s.used("cpuacct", "3", 20)
	s.procs("cpuacct", "1", absent+7)
	s.drain()
	s.procs("memory", "1", absent+7)
	s.drain()
	s.procs("memory", "1")
	s.procs("memory", "0", absent+7)
	s.procs("memory", "0")
	s.procs("cpuacct", "1")
	s.drain()
	s.procs("cpuacct", "3", absent+8)
	s.drain()
	s.procs("memory", "1", absent+8)
	s.used("memory", "1", 99000)
	s.drain()
	s.want("while it runs", "1 20 99000")
	s.gone()
	s.want("after the end", "1 20 99000")
}

// A task that was reported has a row at its end. No other task has its number, though a
// hierarchy is seen later in which only the other one was found.
func TestReportedTaskKeepsItsRow(t *testing.T) {
	s := newPairJob(t, "cpuacct 1", "cpuacct 3")
	s.used("cpuacct", "1", 10)
	s.used("cpuacct", "3", 20)
	s.procs("cpuacct", "1", absent+7)
	s.drain()
	s.want("one hierarchy", "1 10 -")
	s.used("memory", "1", 4096)
	s.procs("memory", "1")
	s.drain()
	s.procs("memory", "1", absent+8)
	s.drain()
	s.procs("cpuacct", "3", absent+8)
	s.drain()
	s.want("two hierarchies", "1 10 -")
	remove(t, s.dir("cpuacct", "1"))
	s.drain()
	s.want("the first has ended", "1 10 -")
	s.gone()
	all, snap := steps(t, s.j)
	var ended []string
	for _, r := range all {
		if r.Task.Valid() {
			ended = append(ended, fmt.Sprint(r.Task.Or(0), r.CPUUsage.Or(0), r.Ended))
		}
	}
	if !slices.Equal(ended, []string{"1 10 true"}) {
		t.Errorf("after the end: %q", ended)
	}
	s.j.Written(snap)
	s.want("it was written")
}

// A task that was not seen in one of three hierarchies is not reported: its number there
// may be another task's elsewhere.
func TestTasksOfThreeHierarchies(t *testing.T) {
	root := t.TempDir()
	in := func(c string, task int) string {
		return filepath.Join(root, c, fmt.Sprintf("slurm/uid_1000/job_12/step_0/task_%d", task))
	}
	for _, d := range []struct {
		controller string
		task       int
		procs      string
	}{
		{"cpuacct", 1, absentPIDs(7)}, {"devices", 1, absentPIDs(7)}, {"memory", 0, ""},
		{"cpuacct", 3, absentPIDs(8)}, {"devices", 3, absentPIDs(8)}, {"memory", 1, absentPIDs(8)},
	} {
		write(t, in(d.controller, d.task)+"/cgroup.procs", d.procs)
	}
	write(t, in("cpuacct", 1)+"/cpuacct.usage", "10000\n")
	write(t, in("cpuacct", 3)+"/cpuacct.usage", "20000\n")
	write(t, in("memory", 1)+"/memory.max_usage_in_bytes", "99000\n")
	s := &pairJob{t: t, root: root, j: manual(t, v1Candidate(root, "cpuacct", "memory", "devices"))}
	s.j.state.tasks.Settle = 0
	s.j.step(nil)
	s.want("while they run", "1 20 99000")
}

// The ledger names no task that is not reported.
func TestKillOfATaskThatIsNotReported(t *testing.T) {
	s := newPairJob(t)
	control := s.dir("memory", "1") + "/memory.oom_control"
	write(t, control, "oom_kill 0\n")
	s.procs("memory", "1", absent+9)
	s.procs("cpuacct", "1")
	s.drain()
	steps(t, s.j)
	write(t, control, "oom_kill 1\n")
	s.want("not matched")
	notes := s.j.Notes()
	if len(notes) != 1 || !strings.Contains(notes[0].Detail, "(1 in step 0)") {
		t.Errorf("logged: %+v", notes)
	}
}

// A task is reported though its step has no group.
func TestTaskOfACrowdedStep(t *testing.T) {
	root := t.TempDir()
	in := func(step int) string {
		return filepath.Join(root, fmt.Sprintf("cpuacct/slurm/uid_1000/job_12/step_%d", step))
	}
	for i := range 256 {
		mkdir(t, in(i))
	}
	s := &pairJob{t: t, root: root, j: manual(t, v1Candidate(root, "cpuacct"))}
	procs := in(256) + "/task_0/cgroup.procs"
	write(t, procs, "")
	write(t, in(256)+"/task_0/cpuacct.usage", "10000\n")
	s.drain()
	remove(t, in(0))
	s.drain()
	write(t, procs, absentPIDs(7))
	s.drain()
	s.want("in the place of another step", "0 10 -")
}

// Without notices, the directories of tasks are matched when they are compared.
func TestTasksAreMatchedWithoutNotices(t *testing.T) {
	s := newPairJob(t)
	s.j.state.isBlind = true
	withoutInotify(t, s.j)
	for _, c := range []string{"cpuacct", "memory"} {
		s.used(c, "0", 10)
		s.procs(c, "0")
	}
	s.j.step(nil)
	for _, c := range []string{"cpuacct", "memory"} {
		s.procs(c, "0", absent+7)
	}
	s.j.step(nil)
	s.want("with a process", "0 10 10")
}

// If the notices of their ends were lost, tasks are still reported once.
func TestTasksAfterLostEvents(t *testing.T) {
	s := newPairJob(t, "cpuacct 1", "cpuacct 3", "memory 0", "memory 1", "memory 3")
	for i, task := range []string{"1", "3"} {
		s.procs("cpuacct", task, absent+7+i)
		s.procs("memory", fmt.Sprint(i), absent+7+i)
	}
	s.drain()
	for _, c := range []string{"memory", "cpuacct"} {
		remove(t, s.dir(c, ""))
	}
	s.j.state.reconcile()
	all, _ := steps(t, s.j)
	var tasks []string
	for _, r := range all {
		if r.Task.Valid() {
			tasks = append(tasks, fmt.Sprint(r.Task.Or(0), r.Ended))
		}
	}
	if !slices.Equal(tasks, []string{"0 true", "1 true"}) {
		t.Errorf("tasks %q", tasks)
	}
}

// If there are more tasks than can be read one by one, each of the others is left out in
// all hierarchies. Directories without a process use up no place.
func TestTooManyTasksV1(t *testing.T) {
	for _, tt := range []struct {
		tasks, want int
		in          []string
	}{{200, 200, []string{"memory", "cpuacct"}}, {300, 256 - 1, []string{"memory", "cpuacct"}}, {300, 256 - 1, []string{"cpuacct"}}} {
		t.Run(fmt.Sprint(tt.tasks, tt.in), func(t *testing.T) {
			root := t.TempDir()
			at := func(c string, task int) string {
				return filepath.Join(root, c, fmt.Sprintf("slurm/uid_1000/job_12/step_0/task_%d", task))
			}
			for i := range tt.tasks {
				write(t, at("memory", i)+"/cgroup.procs", absentPIDs(1000+i))
				mkdir(t, at("memory", 1000+i)) // left behind
				write(t, at("cpuacct", 1000+i)+"/cpuacct.usage", "1000\n")
				write(t, at("cpuacct", 1000+i)+"/cgroup.procs", absentPIDs(1000+i))
			}
			j := manual(t, v1Candidate(root, tt.in...))
			j.state.tasks.Settle = 0
			j.step(nil)
			got, _ := steps(t, j)
			cpu := 0
			for _, r := range got {
				if r.Task.Valid() && r.CPUUsage == some(1) {
					cpu++
				}
			}
			if cpu != tt.want {
				t.Errorf("%d of %d tasks have their CPU time, want %d", cpu, tt.tasks, tt.want)
			}
			if notes := fmt.Sprint(j.Notes()); strings.Contains(notes, "more than 256") != (tt.tasks > 256) {
				t.Errorf("logged: %s", notes)
			}
		})
	}
}
