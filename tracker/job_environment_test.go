package tracker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
)

// The batch script is found by its cgroup: if a step of another job submitted the script, its
// SLURM_STEP_ID is the other step's.
func TestIsBatchScript(t *testing.T) {
	root := t.TempDir()
	const v2 = "0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n"
	const v1 = "5:memory:/slurm/uid_1/job_12/step_0/task_0\n1:freezer:/slurm/uid_1/job_12/step_0\n"
	for name, tt := range map[string]struct {
		cgroup string
		env    environ.Env
		want   bool
	}{
		"batch":                          {v2, environ.Env{"SLURM_TASK_PID": "7"}, true},
		"submitted by a step":            {v2, environ.Env{"SLURM_TASK_PID": "7", "SLURM_STEP_ID": "3"}, true},
		"a child of the script":          {v2, environ.Env{"SLURM_TASK_PID": "6"}, false},
		"a task":                         {v1, environ.Env{"SLURM_TASK_PID": "7", "SLURM_STEP_ID": "0"}, false},
		"a task without its variable":    {v1, environ.Env{"SLURM_TASK_PID": "7"}, false},
		"batch without cgroups":          {"0::/\n", environ.Env{"SLURM_TASK_PID": "7"}, true},
		"a task without cgroups":         {"0::/\n", environ.Env{"SLURM_TASK_PID": "7", "SLURM_STEP_ID": "0"}, false},
		"no process with this number":    {"", environ.Env{"SLURM_TASK_PID": "7"}, true},
		"no number of a process in step": {v2, environ.Env{}, false},
	} {
		if err := os.MkdirAll(filepath.Join(root, "7"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "7", "cgroup"), []byte(tt.cgroup), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := isBatchScript(root, 7, tt.env); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// A reader that comes back after the end of the run does not write a running run again.
func TestJobEnvironmentAfterItsClose(t *testing.T) {
	var changes int
	e := NewJobEnvironment(&JobWatch{procRoot: t.TempDir()}, rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12)}}, func(rt.Run) error { changes++; return nil }, func(err error) { t.Error(err) })
	e.merge(1, environ.NewEnv([]string{"SLURM_JOB_ID=12", "SLURM_JOB_NAME=first"}))
	if name := e.Run().Meta.JobName; name != "first" || changes != 1 {
		t.Fatalf("name %q after %d changes", name, changes)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e.merge(2, environ.NewEnv([]string{"SLURM_JOB_ID=12", "SLURM_JOB_NAME=first", "TRACKER_TEAM=late"}))
	if team := e.Run().Meta.Team; team != "" || changes != 1 {
		t.Errorf("after Close: team %q, %d changes", team, changes)
	}
}

// A job with thousands of processes that are not tasks causes a bounded number of reads, and its
// task is found.
func TestJobEnvironmentOfSilentProcesses(t *testing.T) {
	const processes, task = 1500, 1400
	e := NewJobEnvironment(newJobWatch(t.TempDir(), nil), rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12)}}, func(rt.Run) error { return nil }, func(err error) { t.Error(err) })
	e.list = func(dst []int) []int {
		for pid := range processes {
			dst = append(dst, pid+1)
		}
		return dst
	}
	reads, ofTask := 0, 0
	e.readEnv = func(pid int, _ []byte) ([]byte, error) {
		reads++
		if pid == task {
			ofTask++
			return []byte("SLURM_JOB_ID=12\x00TRACKER_TEAM=found\x00"), nil
		}
		return []byte("HOME=/\x00"), nil
	}
	now := time.Now()
	for range 1000 {
		before := reads
		e.look(now)
		if reads-before > lookMost {
			t.Fatalf("one look read %d environments", reads-before)
		}
		now = now.Add(time.Second)
	}
	if most := processes * lookReads; reads > most {
		t.Errorf("%d reads, want at most %d", reads, most)
	}
	before := reads
	for range 100 {
		e.look(now)
		now = now.Add(time.Second)
	}
	if reads != before || ofTask != 1 {
		t.Errorf("%d more reads of processes that are known, and %d of the task", reads-before, ofTask)
	}
	if len(e.seen) != processes {
		t.Errorf("%d processes are remembered", len(e.seen))
	}
	e.list = func(dst []int) []int { return append(dst, 1) }
	e.look(now)
	if len(e.seen) != 1 {
		t.Errorf("%d processes are remembered after their end", len(e.seen))
	}
}
