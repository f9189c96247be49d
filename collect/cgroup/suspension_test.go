package cgroup

import (
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

// suspendedAt reads the job at seconds after boot, and returns how long it was suspended.
func suspendedAt(t *testing.T, j *Job, secs int64) rt.Opt[uint64] {
	t.Helper()
	s := rt.Snapshot{Boot: secs * 1e9}
	if err := j.Read(&s); err != nil {
		t.Fatal(err)
	}
	return s.Job.Suspended
}

// The time between two readings counts if the job was frozen at both. Slurm's own step does not say whether it is. What
// was counted stays when the step has ended.
func TestSuspendedTimeV2(t *testing.T) {
	s := newShareJob(t)
	events := func(step, text string) { write(t, filepath.Join(s.dir, step, "user/cgroup.events"), text) }
	s.step("step_extern", true, 0, 0)
	events("step_extern", "populated 1\nfrozen 1\n")
	s.look()
	if got := suspendedAt(t, s.j, 10); got.Valid() {
		t.Errorf("without a step: %v", got)
	}
	s.step("step_batch", true, 1000, 0)
	s.look()
	if got := suspendedAt(t, s.j, 20); got.Valid() {
		t.Errorf("Linux before 5.2: %v", got)
	}
	for _, r := range []struct {
		at     int64
		frozen string
		want   uint64 // seconds
	}{{30, "0", 0}, {40, "1", 0}, {50, "1", 10}, {70, "1", 30}, {80, "0", 30}, {90, "1", 30}, {100, "0", 30}, {110, "0", 30}} {
		events("step_batch", "populated 1\nfrozen "+r.frozen+"\n")
		if got := suspendedAt(t, s.j, r.at); got != some(r.want*1e6) {
			t.Errorf("at %d s: %v, want %d s", r.at, got, r.want)
		}
	}
	s.end("step_batch")
	if got := suspendedAt(t, s.j, 120); got != some(30e6) {
		t.Errorf("the step has ended: %v", got)
	}
	remove(t, s.dir)
	s.j.state.removed(s.dir)
	if got := suspendedAt(t, s.j, 130); got != some(30e6) {
		t.Errorf("the job has ended: %v", got)
	}
}

// In v1 the freezer of a step has its state.
func TestSuspendedTimeV1(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct", "memory", "freezer"))
	in := func(controller, name string) string {
		return filepath.Join(root, controller, "slurm/uid_1000/job_12", name)
	}
	for _, step := range []string{"step_extern", "step_0"} {
		for _, c := range []string{"cpuacct", "memory", "freezer"} {
			write(t, in(c, step+"/cgroup.procs"), "")
		}
		write(t, in("cpuacct", step+"/cpuacct.usage"), "7000000\n")
		write(t, in("freezer", step+"/freezer.state"), "FROZEN\n")
	}
	write(t, in("cpuacct", "cpuacct.usage"), "7000000\n")
	j.step(nil)
	j.state.watch.Look()
	j.state.schedule(j.state.deadline)
	for _, r := range []struct {
		at    int64
		state string
		want  uint64 // seconds
	}{{30, "THAWED", 0}, {40, "FREEZING", 0}, {50, "FROZEN", 10}, {60, "THAWED", 10}, {70, "THAWED", 10}} {
		write(t, in("freezer", "step_0/freezer.state"), r.state+"\n")
		if got := suspendedAt(t, j, r.at); got != some(r.want*1e6) {
			t.Errorf("at %d s: %v, want %d s", r.at, got, r.want)
		}
	}
}
