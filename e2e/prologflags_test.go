//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestPrologFlags runs a job of two nodes with each way in which Slurm starts its Prolog: before the job or at a
// node's first step. An extern step keeps the job's cgroup; without one it comes and goes with the steps.
func TestPrologFlags(t *testing.T) {
	for _, flags := range []string{"none", "Alloc", "Contain"} {
		t.Run(flags, func(t *testing.T) {
			s := newSite(t, workDir(t))
			c := labWith(t, s, "--no-dbd", "--prolog-flags", flags)
			w := "env RT_TRUTH=" + s.path("truth") + " " + s.workload()
			id := c.submit(t, s, "exec "+w+" -- bash -c '"+s.workload()+" --cpu 0.4; srun "+w+" --cpu 0.6 --touch 16; sleep 2; srun "+w+" --cpu 0.5'",
				"-N2", "--ntasks-per-node=1", "--mem=100", "-J", "flags")
			j := c.wait(t, id)[id]
			if j["JobState"] != "COMPLETED" {
				t.Errorf("the job ended %s and printed %s", j["JobState"], s.output(t, id))
			}
			settle(t, s.path("spool"))
			for _, node := range c.nodes {
				r := onlyRun(t, s, id, node)
				if r.State != "ended" || !strings.Contains("finished unknown", r.Outcome) || r.JobName != "flags" {
					t.Errorf("%s is %s, %q, of job %q", r.path, r.State, r.Outcome, r.JobName)
				}
				possible(t, r)
				is := s.truthOf(t, id, node)
				if got := time.Duration(r.cpu.Int64) * time.Microsecond; got < is.cpu-is.began-is.slack() || got > is.cpu+is.slack() {
					t.Errorf("%s: CPU time %v, the processes report %v, %v of it before they began", r.path, got, is.cpu, is.began)
				}
				t.Logf("%s: %d snapshots, CPU %v of %v", node, r.snapshots, time.Duration(r.cpu.Int64)*time.Microsecond, is.cpu)
			}
			c.healthy(t)
			for _, line := range s.logLines(t) {
				t.Errorf("unexpected log line: %s", line)
			}
		})
	}
}
