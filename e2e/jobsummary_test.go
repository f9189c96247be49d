//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobSummary runs contrib's script at the end of batch scripts and as TaskEpilog. It adds a line
// to the output of a job and changes neither its exit code nor its outcome. It adds none to a job
// that has no memory left for it.
func TestJobSummary(t *testing.T) {
	s := newSite(t, workDir(t))
	writeJobSummary(t, s)
	c := labWith(t, s, "--no-dbd", "--task-epilog", s.path("job-summary"))
	seen, stderr := s.path("out", "seen"), s.path("out", "stderr")
	wait := "until [ -e " + seen + " ]; do sleep 0.1; done\n"
	id := c.submit(t, s, "trap "+s.path("job-summary")+" EXIT\n"+wait+"srun -n1 true\nexit 3", "-n1", "--mem=150", "-w", c.nodes[0], "-J", "summary", "--error="+stderr)
	small := c.submit(t, s, "trap "+s.path("job-summary")+" EXIT\n"+wait, "-n1", "--mem=30", "-w", c.nodes[1], "-J", "small")
	until(t, "readings of the job", func() bool {
		files, err := filepath.Glob(s.path("spool", fmt.Sprintf("job-%d-*.db", id)))
		return err == nil && len(files) == 1 && count(files[0]) > 0 && query(t, files[0], "SELECT count(*) > 1 FROM snapshot WHERE job_mem_current_kib > 0") == "1"
	})
	command(t, "touch", seen)
	if j := c.wait(t, id)[id]; j["ExitCode"] != "3:0" || j["JobState"] != "FAILED" {
		t.Errorf("the job ended with %s, %s", j["JobState"], j["ExitCode"])
	}
	if j := c.wait(t, small)[small]; j["ExitCode"] != "0:0" || j["JobState"] != "COMPLETED" {
		t.Errorf("the small job ended with %s, %s", j["JobState"], j["ExitCode"])
	}
	errors, err := os.ReadFile(stderr)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"output": s.output(t, id), "errors": string(errors)} { // the trap's, the TaskEpilog's
		t.Logf("%s: %s", what, text)
		isLine := strings.HasPrefix(text, fmt.Sprintf("Job %d summary: running (last reading ", id)) && strings.Contains(text, ", memory ") && strings.HasSuffix(text, " of 150 MiB\n")
		if !isLine || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %q", what, text)
		}
	}
	if text := s.output(t, small); text != "" {
		t.Errorf("the small job printed %q", text)
	}
	c.healthy(t)
}

// TestJobSummaryOfAKill kills a step for its memory, with the intervals of a site. The line in the job's output says at
// which limit, in which step, and what to request.
func TestJobSummaryOfAKill(t *testing.T) {
	s := newSite(t, workDir(t))
	writeJobSummary(t, s)
	s.configure(map[string]string{"tracker.interval": `"10s"`, "spool.commit_interval": `"10s"`})
	c := lab(t, s)
	seen := s.path("out", "seen")
	id := c.submit(t, s, "trap "+s.path("job-summary")+" EXIT\nsrun -n1 "+s.workload()+" --touch 300\nuntil [ -e "+seen+" ]; do sleep 0.1; done\nexit 3", "-n1", "--mem=100", "-w", c.nodes[0], "-J", "hungry", "--error=/dev/null")
	until(t, "the tracker to notice the kill", func() bool {
		files, err := filepath.Glob(s.path("spool", fmt.Sprintf("job-%d-*.db", id)))
		return err == nil && len(files) == 1 && count(files[0]) > 0 && query(t, files[0], "SELECT count(*) FROM event WHERE name = 'oom_kill'") == "1"
	})
	command(t, "touch", seen)
	c.wait(t, id)
	text := s.output(t, id)
	t.Log(text)
	isKilled := strings.Contains(text, "; killed for memory at the limit of 100 MiB in step 0")
	isAdvised := strings.Contains(text, ": --mem=208M; ") && strings.HasSuffix(text, fmt.Sprintf("; rt-job %d shows more\n", id))
	if !isKilled || !isAdvised || strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
	c.healthy(t)
}

// writeJobSummary writes contrib's script with the programs of the test.
func writeJobSummary(t *testing.T, s *site) {
	t.Helper()
	script, err := os.ReadFile("../contrib/slurm/hooks/job-summary")
	if err != nil {
		t.Fatal(err)
	}
	script = bytes.ReplaceAll(script, []byte("/usr/local/bin/rt-spool"), []byte(s.path("bin", "rt-spool")+" --config "+s.config()))
	script = bytes.ReplaceAll(script, []byte("timeout -k 1 5 "), []byte("timeout 240 ")) // no test measures how soon it is
	if err := os.WriteFile(s.path("job-summary"), script, 0o755); err != nil {
		t.Fatal(err)
	}
}
