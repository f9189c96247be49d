//go:build e2e

package e2e

import (
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// quickSteps is the number of steps of a job of TestQuickSteps. Each uses 50 ms of CPU time
// and touches 8 MiB.
const quickSteps = 12

// TestQuickSteps runs steps that follow each other at once and are over in 0.1 s, on a node
// with more work than cores. The first steps run while the tracker still takes its first
// readings. Each step has its CPU time and its peak, and the steps add up to the job.
func TestQuickSteps(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	load(t, 2*runtime.NumCPU())
	script := "for i in $(seq " + strconv.Itoa(quickSteps) + "); do srun -n1 " + s.workload() + " --cpu 0.05 --touch 8; done"
	for range 5 {
		id := c.submit(t, s, script, "-n1", "--mem=100", "-w", c.nodes[0], "-J", "quick-steps")
		c.wait(t, id)
		settle(t, s.path("spool"))
		r := onlyRun(t, s, id, c.nodes[0])
		const steps = "(SELECT step, max(cpu_usage_us) AS cpu, max(mem_peak_kib) AS peak FROM step_reading WHERE task IS NULL GROUP BY step)"
		t.Logf("job %d: %s", id, query(t, r.path, "SELECT group_concat(step || '=' || ifnull(cpu, '-') || '/' || ifnull(peak, '-'), ' ') FROM "+steps))
		read := query(t, r.path, "SELECT count(*) FROM "+steps+" WHERE step GLOB '[0-9]*' AND cpu >= 45000 AND peak >= 8192")
		off := query(t, r.path, "SELECT abs(sum(cpu) - (SELECT max(job_cpu_usage_us) FROM snapshot)) < 20000 FROM "+steps)
		if read != strconv.Itoa(quickSteps) || off != "1" {
			t.Errorf("job %d: %s of %d steps have their CPU time and their peak; the job used %s us; ledger: %s", id, read, quickSteps,
				query(t, r.path, "SELECT max(job_cpu_usage_us) FROM snapshot"),
				query(t, r.path, "SELECT ifnull(group_concat(detail, '; '), '') FROM event WHERE kind = 'job' AND status = 'estimated'"))
		}
	}
}

// load keeps n processes busy until the end of the test.
func load(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the scheduler may share the cores by session
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}
