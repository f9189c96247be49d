package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// shareJob is a v2 job. The test writes its files.
type shareJob struct {
	t         *testing.T
	dir, proc string
	j         *Job
}

func newShareJob(t *testing.T) *shareJob {
	root := t.TempDir()
	s := &shareJob{t: t, dir: filepath.Join(root, "system.slice/slurmstepd.scope/job_2")}
	s.total(0)
	s.proc = t.TempDir()
	s.j = manualWith(t, Options{ProcRoot: s.proc}, v2Candidate(root))
	return s
}

// cpu writes a cpu.stat below the job's directory.
func (s *shareJob) cpu(dir string, usage uint64) {
	write(s.t, filepath.Join(s.dir, dir, "cpu.stat"), fmt.Sprintf("usage_usec %d\nuser_usec %d\nsystem_usec %d\n", usage, usage-usage/4, usage/4))
}

func (s *shareJob) total(usage uint64) { s.cpu("", usage) }

// step writes what a step's two parts have used.
func (s *shareJob) step(name string, populated bool, user, stepd uint64) {
	events := "populated 0\n"
	if populated {
		events = "populated 1\n"
	}
	write(s.t, filepath.Join(s.dir, name, "user/cgroup.events"), events)
	s.cpu(name+"/user", user)
	s.cpu(name+"/slurm", stepd)
}

// end removes a directory, and notifies the watcher.
func (s *shareJob) end(name string) {
	remove(s.t, filepath.Join(s.dir, name))
	s.j.state.removed(filepath.Join(s.dir, name))
}

// look scans for new directories.
func (s *shareJob) look() { s.j.state.watch.Scan(s.dir, s.dir) }

func (s *shareJob) want(what string, own, stepd uint64) {
	s.t.Helper()
	got := read(s.t, s.j)
	if got.CPUUsage != some(own) || got.StepdCPUUsage != some(stepd) {
		s.t.Errorf("%s: the job's %v and slurmstepd's %v, want %d and %d", what, got.CPUUsage, got.StepdCPUUsage, own, stepd)
	}
	if user, system := got.CPUUser.Or(0), got.CPUSystem.Or(0); user+system != own {
		s.t.Errorf("%s: user %d and system %d of %d", what, user, system, own)
	}
}

// wantStep compares the CPU time of the first step and of its tasks.
func (s *shareJob) wantStep(what string, used uint64, ofTasks ...uint64) {
	s.t.Helper()
	var snap rt.Snapshot
	if err := s.j.Read(&snap); err != nil {
		s.t.Fatal(err)
	}
	if len(snap.Steps) != 1+len(ofTasks) || snap.Steps[0].Task.Valid() {
		s.t.Fatalf("%s: the steps are %+v", what, snap.Steps)
	}
	for i, used := range append([]uint64{used}, ofTasks...) {
		got := snap.Steps[i]
		if user, system := got.CPUUser.Or(0), got.CPUSystem.Or(0); got.CPUUsage != some(used) || user+system != used {
			s.t.Errorf("%s: step %s, task %v used %v, user %d and system %d, want %d", what, got.Step, got.Task, got.CPUUsage, user, system, used)
		}
	}
}

// The threads of slurmstepd are not the job's.
func TestThreadsWithoutSlurmstepd(t *testing.T) {
	s := newShareJob(t)
	want := func(what string, n rt.Opt[uint64]) {
		t.Helper()
		if got := read(t, s.j); got.Threads != n {
			t.Errorf("%s: %v threads, want %v", what, got.Threads, n)
		}
	}
	write(t, filepath.Join(s.dir, "pids.current"), "19\n")
	s.step("step_0", true, 100, 20)
	s.step("step_1", true, 100, 20)
	write(t, filepath.Join(s.dir, "step_0/user/pids.current"), "1\n")
	write(t, filepath.Join(s.dir, "step_1/user/pids.current"), "4\n")
	s.j.state.reopen()
	s.look()
	want("two steps", some(5))
	s.end("step_1")
	want("one step", some(1))
	write(t, filepath.Join(s.dir, "step_0/user/pids.current"), "\n")
	want("a step that cannot be read", rt.None[uint64]())
}

// A step that ends before StepBegins returns is still read, because its files are opened before the
// call. StepBegins may wait for a thread of low priority.
func TestShortStepIsOpenedFirst(t *testing.T) {
	root := t.TempDir()
	s := &shareJob{t: t, dir: filepath.Join(root, "system.slice/slurmstepd.scope/job_2")}
	s.total(0)
	step := filepath.Join(s.dir, "step_0")
	s.j = manualWith(t, Options{ProcRoot: t.TempDir(), StepBegins: func([]int) { remove(t, step) }}, v2Candidate(root))
	s.step("step_0", true, 1000, 20)
	s.total(1020)
	s.j.step([]notice{{WD: s.j.state.watch.byPath[s.dir], Dir: s.dir, Name: "step_0", Mask: unix.IN_CREATE | unix.IN_ISDIR}})
	s.wantStep("a step of a moment", 1000)
}

// StepBegins may wait for a thread of low priority: the job's methods do not wait with it.
func TestStepBeginsHasNoLock(t *testing.T) {
	root := t.TempDir()
	s := &shareJob{t: t, dir: filepath.Join(root, "system.slice/slurmstepd.scope/job_2")}
	s.total(0)
	calls := 0
	s.j = manualWith(t, Options{ProcRoot: t.TempDir(), StepBegins: func([]int) {
		if s.j == nil {
			return // manualWith has not returned
		}
		calls++
		if !s.j.mu.TryLock() {
			t.Errorf("call %d has the job's lock", calls)
			return
		}
		s.j.mu.Unlock()
	}}, v2Candidate(root))
	s.step("step_0", true, 1000, 20)
	s.j.step([]notice{{WD: s.j.state.watch.byPath[s.dir], Dir: s.dir, Name: "step_0", Mask: unix.IN_CREATE | unix.IN_ISDIR}})
	if calls != 2 {
		t.Errorf("%d calls, want one for the directories that are new and one for the notice", calls)
	}
}

// Two steps from their beginnings to their ends: what slurmstepd uses after the end of a
// step's processes is its own.
func TestShares(t *testing.T) {
	s := newShareJob(t)
	if got := read(t, s.j); got.CPUUsage != some(0) || got.StepdCPUUsage.Valid() {
		t.Errorf("before any step: %+v", got)
	}
	s.step("step_extern", true, 0, 10)
	s.step("step_0", true, 100, 20)
	s.total(130)
	s.look()
	s.want("two steps", 100, 30)
	s.step("step_0", false, 1000, 50)
	s.total(1060)
	s.want("step 0 emptied", 1000, 60)
	s.total(1090) // it goes on cleaning up
	s.end("step_0")
	s.want("step 0 gone", 1000, 90)
	s.step("step_extern", false, 5, 80)
	s.total(1190)
	s.want("the extern step emptied", 1005, 185)
	remove(s.t, s.dir)
	s.j.state.removed(s.dir)
	s.want("gone", 1005, 185)
}

// If a step's last CPU time was not read, all that the total grew by since is the job's,
// and is counted once.
func TestSharesOfAMissedEnd(t *testing.T) {
	s := newShareJob(t)
	s.step("step_extern", true, 1, 9)
	s.step("step_0", true, 100, 20)
	s.total(135) // 5 more of slurmstepd's
	s.look()
	s.want("two steps", 101, 34)
	s.total(1135)
	s.end("step_0")
	s.want("step 0 gone", 1101, 34)
	if n := s.j.Notes(); len(n) != 2 || !strings.Contains(n[0].Detail, "the end of step 0 was not read") || !strings.Contains(n[1].Detail, "cpu_usec=1000 ") {
		t.Errorf("logged: %v", n)
	}
	s.total(1145)
	s.want("later", 1101, 44)
	s.step("step_1", true, 50, 30)
	s.total(1225)
	s.look()
	s.want("the next step", 1151, 74)
}

// A step that began and ended unseen is the job's.
func TestSharesOfAnUnseenStep(t *testing.T) {
	s := newShareJob(t)
	s.step("step_extern", true, 1, 9)
	s.total(10)
	s.look()
	s.want("extern", 1, 9)
	s.total(510)
	s.j.step([]notice{{Mask: unix.IN_Q_OVERFLOW}})
	s.want("after an overflow", 501, 9)
}

// If a tracker starts late, what the job used in removed steps is the job's.
func TestSharesOfALateStart(t *testing.T) {
	root := t.TempDir()
	s := &shareJob{t: t, dir: filepath.Join(root, "system.slice/slurmstepd.scope/job_2")}
	s.step("step_1", true, 100, 10)
	s.total(5110)
	s.j = manual(t, v2Candidate(root))
	s.want("late", 5100, 10)
}

// CPU time that was taken for an unseen step's and then read of another is not counted twice.
func TestSharesAreNeverMoreThanTheTotal(t *testing.T) {
	s := newShareJob(t)
	s.step("step_0", true, 100, 10)
	s.total(110)
	s.look()
	s.want("one step", 100, 10)
	s.total(400)
	s.j.state.files.MissStep()
	s.want("missed", 390, 10)
	s.step("step_0", true, 380, 20)
	s.want("it was step 0", 390, 20)
	s.step("step_0", true, 480, 20)
	s.total(500)
	s.want("later", 480, 20)
}

// Without a directory "user" in any step, all except what slurmstepd is known to have used
// is the job's.
func TestSharesOfAnotherLayout(t *testing.T) {
	s := newShareJob(t)
	s.cpu("step_0/other", 70)
	s.total(70)
	s.look()
	if got := read(t, s.j); got.CPUUsage != some(70) || got.StepdCPUUsage.Valid() {
		t.Errorf("%+v", got)
	}
	s.cpu("step_0/slurm", 20)
	s.total(100)
	s.look()
	s.want("slurm alone", 80, 20)
}

// A process in the extern step with an impossible CPU time is not the one that Slurm
// keeps there.
func TestSharesOfAnImpossibleTime(t *testing.T) {
	s := newShareJob(t)
	s.step("step_extern", true, 30_000, 5000)
	write(t, filepath.Join(s.dir, "step_extern/user/task_0/cgroup.procs"), absentPIDs(71))
	write(t, filepath.Join(s.proc, "5000071/stat"), fmt.Sprintf("5000071 (a) S 1 1 1 0 -1 4194560 1 0 0 0 %d 0 0 0 20 0 1 0 899 1 1\n", uint64(1)<<44))
	s.total(35_000)
	s.look()
	s.want("no sleeper", 30_000, 5000)
}

// The process that Slurm keeps in the extern step is not the job's. A session that
// pam_slurm_adopt puts next to it is.
func TestSharesOfTheExternStep(t *testing.T) {
	s := newShareJob(t)
	stat := func(pid, user, system, start int) {
		text := fmt.Sprintf("%d (a) b) S 1 1 1 0 -1 4194560 1 0 0 0 %d %d 0 0 20 0 1 0 %d 1 1\n", pid, user, system, start)
		write(t, filepath.Join(s.proc, fmt.Sprint(pid), "stat"), text)
	}
	s.step("step_extern", true, 30_000, 5000)
	write(t, filepath.Join(s.dir, "step_extern/user/task_special/cgroup.procs"), absentPIDs(70))
	write(t, filepath.Join(s.dir, "step_extern/user/task_0/cgroup.procs"), absentPIDs(71))
	stat(absent+70, 50, 0, 900)
	stat(absent+71, 1, 2, 899)
	s.cpu("step_extern/user/task_0", 29_000)
	s.total(35_000)
	s.look()
	s.want("the sleeper", 0, 35_000)
	s.wantStep("the sleeper", 0, 0)
	s.step("step_extern", true, 530_000, 6000)
	s.cpu("step_extern/user/task_0", 32_000)
	s.total(536_000)
	s.want("a session", 500_000, 36_000)
	s.wantStep("a session", 500_000, 2000)
	s.end("step_extern")
	s.want("the end", 500_000, 36_000)
}

// The time of the sleeper is known in ticks of 10 ms. The CPU time of the extern step does not fall
// when a tick ends.
func TestExternStepDoesNotFall(t *testing.T) {
	s := newShareJob(t)
	use := func(step uint64, ticks int) {
		s.step("step_extern", true, step, 0)
		s.cpu("step_extern/user/task_0", step)
		write(t, filepath.Join(s.proc, "5000071/stat"), fmt.Sprintf("5000071 (a) S 1 1 1 0 -1 4194560 1 0 0 0 %d 0 0 0 20 0 1 0 899 1 1\n", ticks))
		s.total(step)
	}
	use(9000, 0)
	write(t, filepath.Join(s.dir, "step_extern/user/task_0/cgroup.procs"), absentPIDs(71))
	s.look()
	s.want("before the first tick", 9000, 0)
	s.wantStep("before the first tick", 9000, 9000)
	use(12_000, 1)
	s.want("a tick", 9000, 10_000)
	s.wantStep("a tick", 9000, 9000)
	use(25_000, 1)
	s.want("a session", 15_000, 10_000)
	s.wantStep("a session", 15_000, 15_000)
}
