//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// quickSteps is the number of steps of a job of TestQuickSteps. Each uses 10 ms of CPU time
// and touches 8 MiB.
const quickSteps = 12

// TestQuickSteps runs short steps, each directly after the other, on a node with more work than cores. A step has its
// CPU time and its peak, or the ledger names it. A tracker without CPU while the step's cgroup exists cannot read the
// step, or not to its end. At least one of several jobs has all figures, and its steps add up to the job.
func TestQuickSteps(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	load(t, 4*runtime.NumCPU())
	script := "for i in $(seq " + strconv.Itoa(quickSteps) + "); do srun -n1 " + s.workload() + " --cpu 0.01 --touch 8; done"
	complete := 0
	for range 4 {
		id := c.submit(t, s, script, "-n1", "--mem=100", "-w", c.nodes[0], "-J", "quick-steps")
		c.wait(t, id)
		settle(t, s.path("spool"))
		r := onlyRun(t, s, id, c.nodes[0])
		const steps = "(SELECT step, max(cpu_usage_us) AS cpu, max(mem_peak_kib) AS peak FROM step_reading WHERE task IS NULL GROUP BY step)"
		t.Logf("job %d: %s", id, query(t, r.path, "SELECT group_concat(step || '=' || ifnull(cpu, '-') || '/' || ifnull(peak, '-'), ' ') FROM "+steps))
		ledger := query(t, r.path, "SELECT ifnull(group_concat(detail, '; '), '') FROM event WHERE kind = 'job' AND status = 'estimated'")
		for step := range quickSteps {
			isRead := query(t, r.path, fmt.Sprintf("SELECT count(*) FROM %s WHERE step = '%d' AND cpu >= 9000 AND peak >= 8192", steps, step)) == "1"
			if isNoted := strings.Contains(ledger, fmt.Sprintf("of step %d was not read", step)); !isRead && !isNoted {
				t.Errorf("job %d: the ledger does not say that step %d was not read: %s", id, step, ledger)
			}
		}
		read := query(t, r.path, "SELECT count(*) FROM "+steps+" WHERE step GLOB '[0-9]*' AND cpu >= 9000 AND peak >= 8192")
		off := query(t, r.path, "SELECT abs(sum(cpu) - (SELECT max(job_cpu_usage_us) FROM snapshot)) < 20000 FROM "+steps)
		if read == strconv.Itoa(quickSteps) && off == "1" {
			complete++
		}
	}
	if complete == 0 {
		t.Error("no job has the figures of all its steps")
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
