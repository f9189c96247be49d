package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// taskJob is a v1 job with a step of several tasks. The test writes its files.
type taskJob struct {
	t    *testing.T
	step string // the directory
	j    *Job
}

func newTaskJob(t *testing.T, tasks int) *taskJob {
	root := t.TempDir()
	s := &taskJob{t: t, step: filepath.Join(root, "cpuacct/slurm/uid_1000/job_12/step_0")}
	s.used("", 0)
	for i := range tasks {
		s.used(fmt.Sprintf("task_%d", i), 0)
		s.procs(fmt.Sprintf("task_%d", i))
	}
	s.procs("")
	s.j = manual(t, v1Candidate(root, "cpuacct"))
	s.j.step(nil)
	return s
}

// used writes what a task, or "" for the step, has used, in microseconds.
func (s *taskJob) used(task string, usage uint64) {
	write(s.t, filepath.Join(s.step, task, "cpuacct.usage"), fmt.Sprintln(usage*1000))
	write(s.t, filepath.Join(s.step, task, "cpuacct.usage_user"), fmt.Sprintln(usage*750))
	write(s.t, filepath.Join(s.step, task, "cpuacct.usage_sys"), fmt.Sprintln(usage*250))
}

// procs writes a task's list of processes.
func (s *taskJob) procs(task string, pids ...int) {
	write(s.t, filepath.Join(s.step, task, "cgroup.procs"), strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", "\n"), "[]"))
}

// absent is above the numbers that processes can have: the kernel gives none over 4194304.
// A process or a thread with the number in a fixture would be waited for.
const absent = 5_000_000

// absentPIDs is a list of processes that do not exist, as in cgroup.procs.
func absentPIDs(numbers ...int) string {
	text := ""
	for _, n := range numbers {
		text += fmt.Sprintln(absent + n)
	}
	return text
}

// next waits for the next event and handles it.
func (s *taskJob) next() {
	s.t.Helper()
	notices, err := s.j.state.watch.Wait(time.Time{}, s.j.state.epoll.FD())
	if err != nil {
		s.t.Fatal(err)
	}
	s.j.step(notices)
}

// drain handles all events that are pending.
func (s *taskJob) drain() {
	for {
		notices, err := s.j.state.watch.Wait(time.Now(), s.j.state.epoll.FD())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		s.j.step(notices)
	}
}

// gone removes the step, and notifies the watcher too late to read its tasks.
func (s *taskJob) gone() map[string]rt.StepReading {
	s.t.Helper()
	lost, err := filepath.Glob(filepath.Join(s.step, "task_*/cpuacct.*"))
	if err != nil || len(lost) == 0 {
		s.t.Fatal(lost, err)
	}
	for _, name := range lost {
		if err := os.Truncate(name, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	remove(s.t, s.step)
	s.drain()
	var snap rt.Snapshot
	if err := s.j.Read(&snap); err != nil {
		s.t.Fatal(err)
	}
	all := map[string]rt.StepReading{}
	for _, r := range snap.Steps {
		name := "step"
		if n, ok := r.Task.Get(); ok {
			name = fmt.Sprint(n)
		}
		if _, twice := all[name]; twice || !r.Ended {
			s.t.Errorf("%s: reported twice, or as not ended: %+v", name, r)
		}
		all[name] = r
	}
	return all
}

// process starts a process that runs until end is called.
func process(t *testing.T) (pid int, end func()) {
	t.Helper()
	c := exec.Command("/bin/sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Cleanup(end)
	return c.Process.Pid, end
}

// What a task has used is read when its last process ends, with no reading since
// and none at the removal.
func TestTaskIsReadAtItsEnd(t *testing.T) {
	s := newTaskJob(t, 2)
	steps(t, s.j)
	pid, end := process(t)
	other, endOther := process(t)
	s.procs("task_0", pid)
	s.procs("task_1", other)
	s.drain()
	steps(t, s.j)

	s.procs("task_0", other) // it has a child, which outlives it
	s.used("task_0", 400)
	end()
	s.next()
	s.used("task_0", 500)
	s.used("task_1", 90)
	s.used("", 590)
	for i := range 2 {
		if err := os.Truncate(filepath.Join(s.step, fmt.Sprintf("task_%d/cgroup.procs", i)), 0); err != nil {
			t.Fatal(err)
		}
	}
	endOther()
	s.next()
	s.drain()
	all := s.gone()
	for name, want := range map[string]uint64{"0": 500, "1": 90, "step": 590} {
		if all[name].CPUUsage != some(want) || all[name].CPUUser != some(want-want/4) {
			t.Errorf("%s: %+v, want %d", name, all[name], want)
		}
	}
	if n := s.j.Notes(); len(n) != 0 {
		t.Errorf("logged: %v", n)
	}
}

// Tasks that were not read at their ends: one such task is credited with what the step has
// beyond the others; several are logged.
func TestTasksWhoseEndWasMissed(t *testing.T) {
	for _, tt := range []struct {
		name     string
		missed   int
		mixed    bool
		want     [3]uint64
		logged   string
		unlikely string
	}{
		{"none", 0, false, [3]uint64{100, 200, 300}, "", "task"},
		{"one", 1, false, [3]uint64{90, 200, 300}, "task 0 of step 0 was not read; its CPU time is what its step used beyond", "not known"},
		{"two", 2, false, [3]uint64{0, 0, 300}, "task 0,1 of step 0 was not read; 0.000 s of CPU time of the step are theirs", "beyond"},
		{"one, and others in its step", 1, true, [3]uint64{0, 200, 300}, "task 0 of step 0 was not read; its figures", "CPU time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTaskJob(t, 3)
			ends := map[int]func(){} // of the tasks that are seen to end
			for i := range 3 {
				pid, end := process(t)
				if i >= tt.missed {
					ends[i] = end
				}
				s.procs(fmt.Sprintf("task_%d", i), pid)
			}
			if tt.mixed {
				mkdir(t, filepath.Join(s.step, "task_special"))
			}
			s.drain()
			steps(t, s.j)
			used := uint64(0)
			for i := range uint64(3) {
				name := fmt.Sprintf("task_%d", i)
				n := 100 * (i + 1)
				if tt.missed == 1 && i == 0 {
					n = 90
				}
				used += n
				s.used(name, n)
			}
			if tt.missed == 2 {
				used -= 10
			}
			s.used("", used)
			for i, end := range ends {
				s.procs(fmt.Sprintf("task_%d", i))
				end()
			}
			s.drain()
			all := s.gone()
			for i, want := range tt.want {
				if got := all[fmt.Sprint(i)].CPUUsage; got != some(want) {
					t.Errorf("task %d: %v, want %d", i, got, want)
				}
			}
			if all["step"].CPUUsage != some(used) {
				t.Errorf("the step: %v, want %d", all["step"].CPUUsage, used)
			}
			notes := fmt.Sprint(s.j.Notes())
			if !strings.Contains(notes, tt.logged) || strings.Contains(notes, tt.unlikely) {
				t.Errorf("logged: %s, want %q", notes, tt.logged)
			}
		})
	}
}

// On a busy node the directories of a step can be removed before its last task is read. The ledger
// then names the task, and its row has the figures of the reading before.
func TestLastTaskIsNotRead(t *testing.T) {
	s := newPairJob(t, "cpuacct 0", "cpuacct 1", "memory 0", "memory 1")
	var ends []func()
	for i, task := range []string{"0", "1"} {
		pid, end := process(t)
		ends = append(ends, end)
		for _, c := range []string{"cpuacct", "memory"} {
			s.procs(c, task, pid)
		}
		s.used("cpuacct", task, 100*(i+1))
	}
	s.used("cpuacct", "", 300)
	s.drain()
	steps(t, s.j)
	end := func(i int, task string) {
		s.empty(s.dir("cpuacct", task)+"/cgroup.procs", s.dir("memory", task)+"/cgroup.procs")
		ends[i]()
	}
	s.used("cpuacct", "0", 150)
	end(0, "0")
	s.drain()
	s.used("cpuacct", "1", 310)
	s.used("cpuacct", "", 460)
	end(1, "1")
	for _, dir := range []string{s.dir("cpuacct", "1"), s.dir("cpuacct", "")} { // no reading succeeds any more
		s.empty(dir + "/cpuacct.usage")
	}
	s.gone()
	s.want("after the end", "0 150 0", "1 200 0")
	notes := s.j.Notes()
	isNoted := len(notes) == 2 && strings.HasPrefix(notes[0].Detail, "the end of step 0 was not read; ") &&
		strings.HasPrefix(notes[1].Detail, "the end of task 1 of step 0 was not read; its figures are of the last reading before")
	if !isNoted {
		t.Errorf("the ledger has %+v", notes)
	}
}
