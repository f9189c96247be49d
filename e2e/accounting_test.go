//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAccounting drains beside a real slurmdbd: what the Epilog cannot tell comes
// from sacct, of jobs that ended just now too, and of one whose tracker was killed.
func TestAccounting(t *testing.T) {
	s := newSite(t, workDir(t))
	c := labWith(t, s)
	sacct := "#!/bin/sh\nSLURM_CONF=" + s.path("lab", "etc", "slurm.conf") + " exec sacct \"$@\"\n"
	if err := os.WriteFile(s.path("sacct"), []byte(sacct), 0o755); err != nil {
		t.Fatal(err)
	}
	log := s.path("out", "started")
	script := "echo $SLURM_JOB_ID >>" + log + "; sleep 100"
	s.configure(nil)
	cancelled := c.submit(t, s, script, "-n1", "--mem=20", "-w", c.nodes[0], "-J", "stopped")
	until(t, time.Minute, "the first job", func() bool { return exists(log) })
	killTracker(t, s)
	c.root(t, "scancel", fmt.Sprint(cancelled))
	c.wait(t, cancelled, time.Minute)
	array := c.submit(t, s, script, "-n1", "--mem=20", "-w", c.nodes[1], "-J", "pair", "--array=4-5")
	until(t, time.Minute, "the array", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Count(string(text), "\n") == 3
	})
	c.root(t, "scancel", fmt.Sprint(array))
	c.wait(t, array, time.Minute)
	failed := c.submit(t, s, "exit 3", "-n1", "--mem=20", "-w", c.nodes[0], "-J", "wrong")
	c.wait(t, failed, time.Minute)
	r := serve(t, s, s.path("spool"), "drain.sacct", fmt.Sprintf("%q", s.path("sacct")))
	until(t, time.Minute, "every run to be delivered", func() bool {
		if out, status := s.rtSpool(t, "drain"); status != 0 || out != "" {
			t.Fatalf("drain ended with %d and printed %q", status, out)
		}
		return len(r.runs(t)) == 4
	})
	want := map[string]string{"stopped": "cancelled", "pair": "cancelled", "wrong": "failed"}
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
}
