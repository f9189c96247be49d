package tracker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
)

// The batch script is found by its cgroup: if a step of another job has submitted it, it has the
// SLURM_STEP_ID of that step.
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
