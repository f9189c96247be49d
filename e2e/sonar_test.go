//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/format/sonar"
)

// runSonarSlurm ends jobs in every way and compares the output of rt-spool sonar slurm with
// sacct, field by field. While one of the jobs runs, rt-spool sonar ps must show its
// processes with the job's id. slow is a job that will run into its time limit.
func runSonarSlurm(t *testing.T, c *cluster, s *site, slow int64) {
	s.configure(nil)
	w := s.workload()
	one := func(script string, args ...string) int64 {
		return c.submit(t, s, script, append([]string{"-n1"}, args...)...)
	}
	jobs := map[string]int64{
		"TIMEOUT":       slow,
		"COMPLETED":     one("srun "+w+" --cpu 0.5 --touch 8", "--mem=60"),
		"FAILED":        one("exit 5", "--mem=20"),
		"OUT_OF_MEMORY": one("exec "+w+" --touch 300", "--mem=60"),
		"array":         one("exit $SLURM_ARRAY_TASK_ID", "--mem=20", "--array=0-1"),
		"het":           one("srun --het-group=0,1 true", "--mem=20", "-w", c.nodes[0], ":", "-n1", "--mem=20", "-w", c.nodes[1]),
		"CANCELLED":     one("exec "+w+" --cpu 2.5 --touch 20 --hold 300", "--mem=60"),
	}
	sonarPsOf(t, s, jobs["CANCELLED"])
	c.root(t, "scancel", fmt.Sprint(jobs["CANCELLED"]))
	for _, id := range jobs {
		c.wait(t, id)
	}
	sonarExchange(t, s, jobs["CANCELLED"])
	var said string
	until(t, "sacct to report the end of all jobs", func() bool {
		said = c.root(t, "sacct", "--allusers", "--parsable2", "--format="+strings.Join(sonar.JobFields[:], ","), "--starttime=now-2hours")
		return !strings.Contains(said, "|RUNNING|") && !strings.Contains(said, "|PENDING|") && strings.Contains(said, "|TIMEOUT|")
	})
	for _, form := range []string{"--csv", "--json"} {
		out, status := s.rtSpool(t, "sonar", "slurm", form)
		if status != 0 {
			t.Fatalf("rt-spool sonar slurm %s ended with %d: %s", form, status, out)
		}
		states := compareSacct(t, lines(said)[1:], out)
		for _, state := range []string{"TIMEOUT", "COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED"} {
			if id := fmt.Sprint(jobs[state]); !strings.HasPrefix(states[id], state) {
				t.Errorf("job %s is %q, not %s", id, states[id], state)
			}
		}
		for _, id := range []string{fmt.Sprint(jobs["array"], "_0"), fmt.Sprint(jobs["array"], "_1"), fmt.Sprint(jobs["het"], "+0"), fmt.Sprint(jobs["het"], "+1")} {
			if states[id] == "" {
				t.Errorf("no record of job %s", id)
			}
		}
	}
}

// compareSacct compares the lines of sacct, without their header, with the records that
// were printed, and returns the state of each job by its JobID.
func compareSacct(t *testing.T, said []string, printed string) map[string]string {
	t.Helper()
	zero := map[string]bool{"": true, "Unknown": true, "0": true, "00:00:00": true, "0:0": true, "0.00M": true}
	got := map[string]map[string]string{}
	states := map[string]string{}
	for rec, err := range sonar.Decode(strings.NewReader(printed)) {
		j, ok := rec.(*sonar.JobRecord)
		if err != nil || !ok {
			t.Fatalf("%v: %T", err, rec)
		}
		line, err := j.AppendCSV(nil)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := sonar.SplitFree(strings.TrimSpace(string(line)))
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, f := range fields {
			values[f.Name] = f.Text
		}
		got[j.JobIDRaw], states[j.JobID] = values, j.State
	}
	if len(got) != len(said) {
		t.Errorf("%d records for %d lines of sacct", len(got), len(said))
	}
	for _, line := range said {
		want := strings.SplitN(line, "|", len(sonar.JobFields))
		values := got[want[1]]
		for i, name := range sonar.JobFields {
			value, present := values[name]
			switch {
			case name == "JobName" || name == "Account" || name == "User":
				if !present || value != want[i] {
					t.Errorf("job %s: %s is %q, sacct reports %q", want[1], name, value, want[i])
				}
			case zero[want[i]]:
				if present {
					t.Errorf("job %s: %s is %q, sacct reports %q", want[1], name, value, want[i])
				}
			case (name == "Start" || name == "End" || name == "Submit") && want[i] != "None":
				at, err := time.Parse(time.RFC3339, value)
				if err != nil || at.Local().Format("2006-01-02T15:04:05") != want[i] {
					t.Errorf("job %s: %s is %q (%v), sacct reports %q", want[1], name, value, err, want[i])
				}
			case value != want[i]:
				t.Errorf("job %s: %s is %q, sacct reports %q", want[1], name, value, want[i])
			}
		}
	}
	return states
}

// sonarPsOf waits until rt-spool sonar ps shows that the job's workload holds its memory and has used 1.5 s of CPU
// time. Sonar rounds it to 2 s.
func sonarPsOf(t *testing.T, s *site, job int64) {
	t.Helper()
	until(t, fmt.Sprintf("sonar ps to show the workload of job %d", job), func() bool {
		out, status := s.rtSpool(t, "sonar", "ps", "--json", "--rollup", "--exclude-system-jobs")
		if status != 0 {
			t.Fatalf("rt-spool sonar ps ended with %d: %s", status, out)
		}
		for rec, err := range sonar.Decode(strings.NewReader(out)) {
			p, ok := rec.(*sonar.Sample)
			if err != nil || !ok {
				t.Fatalf("%v: %T", err, rec)
			}
			if p.Job == uint64(job) && p.Cmd == "workload" && p.User == "labuser" && p.RSSAnonKiB >= 20<<10 && p.CPUTimeSec >= 2 {
				return true
			}
		}
		return false
	})
}

// sonarExchange exports the job's run in both forms and imports it again: the figures are
// the same within the precision of the formats. As FTDC the report is the same.
func sonarExchange(t *testing.T, s *site, job int64) {
	t.Helper()
	id := fmt.Sprint(job)
	type figures struct {
		ElapsedSecs float64 `json:"elapsed_secs"`
		CPU         struct {
			UsedSecs float64 `json:"used_secs"`
		} `json:"cpu"`
		Memory struct {
			AnonymousBytes uint64 `json:"anonymous_bytes"`
		} `json:"memory"`
		Processes struct {
			Max uint64 `json:"max"`
		} `json:"processes"`
	}
	spooled := func(args ...string) string {
		t.Helper()
		out, status := s.rtSpool(t, args...)
		if status != 0 {
			t.Fatalf("rt-spool %v ended with %d: %s", args, status, out)
		}
		return out
	}
	report := func(args ...string) (f figures) {
		t.Helper()
		var all []figures
		text := spooled(append(args, "report", "--json", id)...)
		if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 {
			t.Fatalf("%v: %d reports in %s", err, len(all), text)
		}
		return all[0]
	}
	want := report()
	for _, format := range []string{"sonar-csv", "sonar-json"} {
		file, dir := s.path(format), s.path("spool-"+format)
		spooled("export", "--format", format, "--output", file, id)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		spooled("--spool", dir, "import", "--format", format, "--cluster", "lab", file)
		got := report("--spool", dir)
		t.Logf("%s: %+v of %+v", format, got, want)
		if math.Abs(got.CPU.UsedSecs-want.CPU.UsedSecs) > 1 || math.Abs(got.ElapsedSecs-want.ElapsedSecs) > 2 ||
			got.Memory != want.Memory || got.Processes != want.Processes || want.CPU.UsedSecs < 1.5 || want.Memory.AnonymousBytes < 20<<20 {
			t.Errorf("%s came back as %+v, not %+v", format, got, want)
		}
	}
	file, dir := s.path("job.ftdc"), s.path("spool-ftdc")
	spooled("export", "--format", "ftdc", "--output", file, id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spooled("--spool", dir, "import", "--format", "ftdc", file)
	for _, form := range []string{"--ascii", "--json"} {
		if got, want := spooled("--spool", dir, "report", form, id), spooled("report", form, id); got != want {
			t.Errorf("as FTDC it came back as\n%s\nnot\n%s", got, want)
		} else if form == "--ascii" {
			t.Logf("as FTDC it came back as\n%s", got)
		}
	}
}
