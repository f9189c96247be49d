package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

// TestTasksOfSecondNode: four of eight tasks on two nodes. cpuacct numbers them 1, 3, 5, 7;
// memory 0 to 3, and has directories 5 and 7 through which they passed. Each is reported once, as 0 to 3, with the figures of both.
func TestTasksOfSecondNode(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct", "memory", "freezer"))
	j.state.tasks.Settle = 0
	in := func(controller string, task int) string {
		return filepath.Join(root, controller, fmt.Sprintf("slurm/uid_1000/job_12/step_0/task_%d", task))
	}
	mkdir(t, filepath.Dir(in("freezer", 0)))
	for i := range 4 {
		write(t, in("cpuacct", 2*i+1)+"/cpuacct.usage", fmt.Sprintln(1000*(i+1)))
		write(t, in("memory", i)+"/memory.max_usage_in_bytes", fmt.Sprintln(4096*(i+1)))
		pid := []int{40, 10, 30, 20}[i] // in no order
		write(t, in("cpuacct", 2*i+1)+"/cgroup.procs", absentPIDs(pid))
		write(t, in("memory", i)+"/cgroup.procs", absentPIDs(pid, pid+5))
	}
	for _, left := range []int{5, 7} {
		write(t, in("memory", left)+"/memory.max_usage_in_bytes", "77\n")
	}
	j.step(nil)
	j.state.watch.Look()
	j.state.schedule(j.state.deadline)
	check := func(ended bool) {
		t.Helper()
		got, _ := steps(t, j)
		for i, r := range got[1:] {
			want := rt.StepReading{Step: "0", Task: some(uint64(i)), Ended: ended, CPUUsage: some(uint64(i + 1)), MemPeak: some(uint64(4096 * (i + 1)))}
			if r.Task != want.Task || r.CPUUsage != want.CPUUsage || r.MemPeak != want.MemPeak || r.Ended != ended {
				t.Errorf("row %d: %+v", i+1, r)
			}
		}
		if len(got) != 5 {
			t.Errorf("%d rows instead of a step and four tasks", len(got))
		}
	}
	check(false)
	for _, c := range []string{"memory", "freezer", "cpuacct"} {
		step := filepath.Dir(in(c, 0))
		if err := os.RemoveAll(step); err != nil {
			t.Fatal(err)
		}
		j.state.removed(step)
	}
	check(true)
}

// TestTasksChangeDirectory: a process that is in memory's directory of another task
// at first, by its number in the step, belongs to where it goes.
func TestTasksChangeDirectory(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct", "memory"))
	j.state.tasks.Settle = 0
	at := func(controller string, task, usage int) string {
		dir := filepath.Join(root, controller, fmt.Sprintf("slurm/uid_1000/job_12/step_0/task_%d", task))
		write(t, filepath.Join(dir, map[string]string{"cpuacct": "cpuacct.usage", "memory": "memory.usage_in_bytes"}[controller]), fmt.Sprintln(usage*1000))
		write(t, filepath.Join(dir, "cgroup.procs"), "")
		return filepath.Join(dir, "cgroup.procs")
	}
	c0, c2 := at("cpuacct", 0, 1), at("cpuacct", 2, 3)
	m0, m1, m2 := at("memory", 0, 10), at("memory", 1, 30), at("memory", 2, 99)
	j.step(nil)
	j.state.watch.Look()
	j.state.schedule(j.state.deadline)
	came := func(procs, text string) {
		t.Helper()
		write(t, procs, text)
		j.state.tasks.ProcessJoined(filepath.Dir(procs))
	}
	came(c0, absentPIDs(7))
	came(m0, absentPIDs(7))
	came(c2, absentPIDs(8))
	came(m2, absentPIDs(8))
	write(t, m2, "")
	came(m1, absentPIDs(8))
	for _, procs := range []string{c0, c2, m0, m1} { // both have ended before the first reading
		write(t, procs, "")
	}
	got, _ := steps(t, j)
	for i, want := range []rt.StepReading{{Task: some(0), CPUUsage: some(1), MemCurrent: some(10000)}, {Task: some(1), CPUUsage: some(3), MemCurrent: some(30000)}} {
		if len(got) != 3 || got[i+1].Task != want.Task || got[i+1].CPUUsage != want.CPUUsage || got[i+1].MemCurrent != want.MemCurrent {
			t.Errorf("%+v", got)
		}
	}
}
