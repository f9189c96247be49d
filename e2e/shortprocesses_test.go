//go:build e2e

package e2e

import (
	"testing"
)

// TestShortProcesses compares the CPU time of a job of 200 short processes with the sum of
// their reports. With cgroup v1 slurmstepd is in no cgroup of the job.
func TestShortProcesses(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	id := c.submit(t, s, "exec env RT_TRUTH="+s.path("truth")+" "+s.workload()+" -- bash -c 'for i in $(seq 200); do "+s.workload()+" --cpu 0.004; done'",
		"-n1", "--mem=60", "-w", c.nodes[0], "-J", "forks")
	c.wait(t, id)
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	possible(t, r)
	if apart := checkFigures(t, s, expected{jobID: id, node: c.nodes[0], truth: id}, r); apart != "" {
		t.Error(apart)
	}
}
