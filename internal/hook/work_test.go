package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/hook"
)

func TestHookContexts(t *testing.T) {
	for _, context := range []string{"prolog_slurmctld", "prolog_task"} {
		_, err := identify(environ.Env{"SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": "12"}, time.Now())
		if err == nil || !strings.Contains(err.Error(), context) || !strings.Contains(err.Error(), "Prolog=") {
			t.Errorf("%s: %v", context, err)
		}
	}
	if err := startTracker(nil, environ.Env{}, time.Now()); !errors.Is(err, environ.ErrNoJob) {
		t.Errorf("rt-prolog without a job: %v", err)
	}
	if err := stopTracker(nil, environ.Env{}, time.Now()); !errors.Is(err, environ.ErrNoJob) {
		t.Errorf("rt-epilog without a job: %v", err)
	}
	run, err := identify(environ.Env{"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_JOB_ID": "12"}, time.Now())
	if err != nil || run.Node != hostname() {
		t.Errorf("where Slurm does not name the node: %q, %v", run.Node, err)
	}
}

func TestRunInJob(t *testing.T) {
	cgroup := filepath.Join(t.TempDir(), "cgroup")
	if err := outsideJob(cgroup); err != nil {
		t.Errorf("without cgroups: %v", err)
	}
	for text, inside := range map[string]bool{
		"0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special\n": true,
		"0::/system.slice/slurmd.service\n":                                        false,
	} {
		if err := os.WriteFile(cgroup, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := outsideJob(cgroup)
		if refused := err != nil && strings.Contains(err.Error(), "RunInJob"); refused != inside {
			t.Errorf("%q: %v", text, err)
		}
	}
	var h slurmhook.Hook
	if _ = build(&h, config.Default(), ""); h.Precheck == nil { // whether user rt exists or not
		t.Error("the hook has no such check")
	}
}

func TestKillSwitch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disabled")
	if disabled("") || disabled(file) {
		t.Error("the switch is on without its file")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !disabled(file) {
		t.Error("the switch is off with its file")
	}
}
