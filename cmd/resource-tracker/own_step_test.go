package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/resource-tracker/rt/tracker"
)

// Another process has our pid in the procfs of --path.procfs, if that is of another pid namespace.
func TestTheStepIsOurOwn(t *testing.T) {
	s := settings{procfs: t.TempDir(), interval: time.Second}
	dir := filepath.Join(s.procfs, strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const others = "0::/system.slice/slurmstepd.scope/job_77/step_41/user/task_0\n"
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(others), 0o644); err != nil {
		t.Fatal(err)
	}
	if step := tracker.StepOf(s.procfs, os.Getpid()); step != "41" {
		t.Fatalf("the step of the other process is %q", step)
	}
	t.Setenv("SLURM_JOB_ID", "12")
	t.Setenv("SLURM_STEP_ID", "3")
	if run := newRun(s, 0, time.Now()); run.Step == "41" {
		t.Error("the run has the step of another process")
	}
	s.spoolDir = t.TempDir()
	lock := acquireStepLock(s)
	if names, err := filepath.Glob(filepath.Join(s.spoolDir, "12.41@*")); err != nil || len(names) > 0 || !lock.Held() {
		t.Errorf("the lock is that of another step: %v, %v, held: %v", names, err, lock.Held())
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}
