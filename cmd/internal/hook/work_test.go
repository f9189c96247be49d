package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/slurm/environ"
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
