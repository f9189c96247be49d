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
	script, err := os.ReadFile("../contrib/slurm/hooks/job-summary")
	if err != nil {
		t.Fatal(err)
	}
	script = bytes.ReplaceAll(script, []byte("/usr/local/bin/rt-spool"), []byte(s.path("bin", "rt-spool")+" --config "+s.config()))
	script = bytes.ReplaceAll(script, []byte("timeout -k 1 5 "), []byte("timeout 240 ")) // no test measures how soon it is
	if err := os.WriteFile(s.path("job-summary"), script, 0o755); err != nil {
		t.Fatal(err)
	}
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
