//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// TestSlurmdbd needs a real slurmdbd. One job runs into its time limit, which slurmctld looks at every
// half minute; the other jobs run meanwhile. The slow job has no tracker.
func TestSlurmdbd(t *testing.T) {
	s := newSite(t, workDir(t))
	c := labWith(t, s)
	t.Setenv("SLURM_CONF", s.path("lab", "etc", "slurm.conf"))
	if err := os.WriteFile(s.path("disabled"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	began := s.path("out", "began")
	slow := c.submit(t, s, "echo >"+began+"; exec sleep 3600", "-n1", "--mem=20", "--time=1", "-w", c.nodes[0], "-J", "slow,\"quoted\"")
	until(t, "the slow job", func() bool { return exists(began) })
	c.root(t, "scontrol", "update", fmt.Sprint("JobId=", slow), "EndTime=now+1seconds")
	if err := os.Remove(s.path("disabled")); err != nil {
		t.Fatal(err)
	}
	t.Run("accounting", func(t *testing.T) { runAccounting(t, c, s) })
	t.Run("sonar", func(t *testing.T) { runSonarSlurm(t, c, s, slow) })
}

// runAccounting drains while the slow job runs. The outcomes that the Epilog does not
// report come from sacct, also for jobs that have just ended and for a job that lost its
// tracker.
func runAccounting(t *testing.T, c *cluster, s *site) {
	sacct := "#!/bin/sh\nSLURM_CONF=" + s.path("lab", "etc", "slurm.conf") + " exec sacct \"$@\"\n"
	if err := os.WriteFile(s.path("sacct"), []byte(sacct), 0o755); err != nil {
		t.Fatal(err)
	}
	log := s.path("out", "started")
	script := "echo $SLURM_JOB_ID >>" + log + "; sleep 3600"
	s.configure(nil)
	cancelled := c.submit(t, s, script, "-n1", "--mem=20", "-w", c.nodes[0], "-J", "stopped")
	until(t, "the first job", func() bool { return exists(log) })
	killTracker(t, s)
	c.root(t, "scancel", fmt.Sprint(cancelled))
	c.wait(t, cancelled)
	array := c.submit(t, s, script, "-n1", "--mem=20", "-w", c.nodes[1], "-J", "pair", "--array=4-5")
	until(t, "the array", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Count(string(text), "\n") == 3
	})
	c.root(t, "scancel", fmt.Sprint(array))
	c.wait(t, array)
	failed := c.submit(t, s, "exit 3", "-n1", "--mem=20", "-w", c.nodes[0], "-J", "wrong")
	c.wait(t, failed)
	w := "env RT_TRUTH=" + s.path("truth") + " " + s.workload()
	burner := c.submit(t, s, "srun -n1 "+w+" --cpu 4 --touch 40 --hold 5", "-n1", "--mem=100", "-w", c.nodes[0], "-J", "burner")
	c.wait(t, burner)
	r := serve(t, s, s.path("spool"), "drain.sacct", fmt.Sprintf("%q", s.path("sacct")))
	until(t, "every run to be delivered", func() bool {
		if out, status := s.rtSpool(t, "drain"); status != 0 || out != "" {
			t.Fatalf("drain ended with %d and printed %q", status, out)
		}
		return len(r.runs(t)) == 5
	})
	want := map[string]string{"stopped": "cancelled", "pair": "cancelled", "wrong": "failed", "burner": "finished"}
	tasks := map[int64]bool{}
	for _, run := range runs(t, s.path("spool")) {
		if run.Outcome != want[run.JobName] || run.Source != "sacct" || run.Outcome == "" {
			t.Errorf("%s: job %d, %q, is %q by %q, not %q by sacct", run.path, run.JobID, run.JobName, run.Outcome, run.Source, want[run.JobName])
		}
		if run.JobName == "pair" {
			tasks[run.ArrayTask.Int64] = run.ArrayJob.Int64 == array
		}
	}
	if !tasks[4] || !tasks[5] {
		t.Errorf("the array's tasks: %v", tasks)
	}
	compareWithSacct(t, s, burner)
}

// compareWithSacct compares our figures of a job with those of sacct, as the report shows
// them.
func compareWithSacct(t *testing.T, s *site, job int64) {
	t.Helper()
	text, status := s.rtSpool(t, "report", fmt.Sprint(job))
	out, status2 := s.rtSpool(t, "report", "--json", fmt.Sprint(job))
	var docs []struct {
		Sacct struct {
			Differences []struct {
				Figure      string
				Ours, Sacct float64
				OffPct      float64 `json:"off_pct"`
				Reason      string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &docs); err != nil || status != 0 || status2 != 0 || len(docs) != 1 {
		t.Fatalf("report ended with %d and %d: %v\n%s\n%s", status, status2, err, text, out)
	}
	t.Logf("%+v\n%s", docs[0].Sacct.Differences, text)
	seen := map[string]bool{}
	for _, d := range docs[0].Sacct.Differences {
		seen[d.Figure] = d.Reason != ""
		switch off := math.Abs(d.OffPct); {
		case d.Figure == "cpu_secs" && off > 1, d.Figure == "elapsed_secs" && math.Abs(d.Ours-d.Sacct) > 10: // Prolog and Epilog may have to wait
			t.Errorf("%s: %g, sacct reports %g", d.Figure, d.Ours, d.Sacct)
		case d.Figure == "max_rss_bytes" && (d.Ours < 40<<20 || d.Sacct < 40<<20):
			t.Errorf("40 MiB were touched: %g, sacct reports %g", d.Ours, d.Sacct)
		}
	}
	if !seen["cpu_secs"] || !seen["elapsed_secs"] || !seen["max_rss_bytes"] || !strings.Contains(text, "sacct        CPU") {
		t.Errorf("compared figures: %v", seen)
	}
}
