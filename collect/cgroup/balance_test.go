package cgroup

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

// v1 samples user and system time by tick. In each reading of the job, its steps and tasks
// they add up to the usage. Neither falls, even when a step ends or a job's cgroup is
// created again.
func TestUserAndSystemAddUpToTheUsage(t *testing.T) {
	root := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 4))
	dir := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	sampled := map[string][3]uint64{} // usage, user, system of each directory, in nanoseconds
	use := func(sub string) {
		v := sampled[sub]
		v[0] += rng.Uint64N(1e9)
		v[1] += rng.Uint64N(4) * 250e6
		v[2] += rng.Uint64N(3) * 250e6
		sampled[sub] = v
		for i, name := range [...]string{"cpuacct.usage", "cpuacct.usage_user", "cpuacct.usage_sys"} {
			write(t, filepath.Join(dir, sub, name), fmt.Sprintln(v[i]))
		}
	}
	subs := []string{"", "step_0", "step_0/task_0"}
	begin := func() {
		for _, sub := range subs {
			write(t, filepath.Join(dir, sub, "cgroup.procs"), "")
			use(sub)
		}
		write(t, filepath.Join(dir, subs[2], "cgroup.procs"), fmt.Sprintln(os.Getpid()))
	}
	begin()
	j := manual(t, v1Candidate(root, "cpuacct"))
	j.state.tasks.Settle = 0
	last := map[string][2]uint64{}
	check := func(name string, usage, user, system rt.Opt[uint64]) {
		t.Helper()
		if user.Or(0)+system.Or(0) != usage.Or(0) || user.Or(0) < last[name][0] || system.Or(0) < last[name][1] {
			t.Errorf("%s: usage %v, user %v, system %v; before %v", name, usage, user, system, last[name])
		}
		last[name] = [2]uint64{user.Or(0), system.Or(0)}
	}
	readings := func() (groups int) {
		for range 20 {
			var s rt.Snapshot
			if err := j.Read(&s); err != nil {
				t.Fatal(err)
			}
			check("job", s.Job.CPUUsage, s.Job.CPUUser, s.Job.CPUSystem)
			for i := range s.Steps {
				r := &s.Steps[i]
				check(fmt.Sprint(r.Step, r.Task), r.CPUUsage, r.CPUUser, r.CPUSystem)
			}
			groups += len(s.Steps)
			for _, sub := range subs {
				use(sub)
			}
		}
		return groups
	}
	if groups := readings(); groups < 40 {
		t.Errorf("%d readings of steps and tasks", groups)
	}
	before := last["job"]
	remove(t, dir)
	j.state.removed(dir)
	clear(sampled)
	begin()
	last = map[string][2]uint64{"job": before}
	j.state.watch.Look()
	j.step(nil)
	readings()
	if now := last["job"]; now[0] <= before[0] || now[1] <= before[1] {
		t.Errorf("after the second cgroup %v, before %v", now, before)
	}
}
