//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLinuxProc runs a job where Slurm uses no cgroups. Its figures are from the processes below its slurmstepds, and
// its ledger has the reason.
func TestLinuxProc(t *testing.T) {
	s := newSite(t, diskDir(t))
	c := labWith(t, s, "--no-dbd", "--cgroup", "none")
	s.configure(map[string]string{"tracker.first_interval": `"250ms"`})
	w := "env RT_TRUTH=" + s.path("truth") + " " + s.workload()
	id := c.submit(t, s, "dd if=/dev/zero of="+s.path("out", "written")+" bs=1M count=24 conv=fsync; "+w+" --cpu 1 --touch 24 --hold 1; srun -n2 -O "+w+" --cpu 1 --touch 16 --hold 1; exit 7", "-n1", "-w", c.nodes[0], "-J", "without")
	if j := c.wait(t, id)[id]; j["ExitCode"] != "7:0" {
		t.Errorf("the job ended with %s and printed %s", j["ExitCode"], s.output(t, id))
	}
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	if r.State != "ended" || r.Outcome != "failed" || null(r.ExitCode) != "7" || r.JobName != "without" {
		t.Errorf("%s is %s, %q with %s, of job %q", r.path, r.State, r.Outcome, null(r.ExitCode), r.JobName)
	}
	ticks, err := strconv.ParseInt(query(t, r.path, "SELECT ifnull(max(tree_cpu_user_ticks + tree_cpu_system_ticks), -1) FROM snapshot"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	is, got := s.truthOf(t, id, c.nodes[0]), time.Duration(ticks)*10*time.Millisecond
	// Our sum includes srun, dd and the script, which do not report.
	if got < is.cpu-250*time.Millisecond || got > is.cpu+time.Second {
		t.Errorf("%s: CPU time %v, the processes report %v", r.path, got, is.cpu)
	}
	t.Logf("%d snapshots, CPU %v of %v", r.snapshots, got, is.cpu)
	if written := query(t, r.path, "SELECT max(job_proc_write_bytes) BETWEEN 24 * 1048576 AND 24.24 * 1048576 FROM snapshot"); written != "1" {
		t.Errorf("%s: %s bytes, want those of 24 MiB", r.path, query(t, r.path, "SELECT max(job_proc_write_bytes) FROM snapshot"))
	}
	text, _ := s.rtSpool(t, "report", strconv.FormatInt(id, 10))
	if !strings.Contains(text, "written at least 24.") || strings.Contains(text, "CPU time     -") {
		t.Errorf("the report is\n%s", text)
	}
	if events := query(t, r.path, "SELECT count(*) FROM event WHERE name = 'cgroup' AND status = 'absent' AND detail LIKE '%linuxproc%'"); events != "1" {
		t.Errorf("%s has %s events for the missing cgroup, want 1", r.path, events)
	}
	if fell := query(t, r.path, `SELECT count(*) FROM (SELECT tree_cpu_user_ticks - lag(tree_cpu_user_ticks) OVER (ORDER BY seq) AS d
		FROM snapshot WHERE tree_cpu_user_ticks IS NOT NULL) WHERE d < 0`); fell != "0" {
		t.Errorf("%s: the CPU time decreases %s times", r.path, fell)
	}
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("unexpected log line: %s", line)
	}
}
