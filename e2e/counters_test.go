//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
)

// countersOn lets trackers count software events, and energy where there is any.
var countersOn = map[string]string{"perf.core": `"task-clock,page-faults,context-switches"`, "tracker.first_interval": `"250ms"`}

// TestCounters runs a job with counters on where Slurm makes no cgroup that they know:
// it has none of them, its ledger says why, and nothing else is the worse for it.
func TestCounters(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	s.configure(countersOn)
	id := c.submit(t, s, "env RT_TRUTH="+s.path("truth")+" "+s.workload()+" --cpu 2 --hold 1", "-n1", "-w", c.nodes[0], "-J", "counted")
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s and printed %s", j["JobState"], s.output(t, id))
	}
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	if r.State != "ended" || r.Outcome == "lost" {
		t.Errorf("%s is %s, %s", r.path, r.State, r.Outcome)
	}
	if n := query(t, r.path, "SELECT count(*) FROM perf"); n != "0" {
		t.Errorf("%s counters were read", n)
	}
	told := query(t, r.path, "SELECT group_concat(status || ': ' || detail, '; ') FROM event WHERE kind = 'sensor' AND name = 'perf'")
	if !strings.HasPrefix(told, "not supported: ") || !strings.Contains(told, "job_"+strconv.FormatInt(id, 10)) {
		t.Errorf("the ledger tells of the counters: %q", told)
	}
	t.Log(told)
	if n := query(t, r.path, "SELECT count(*) FROM energy"); n == "0" {
		if told := query(t, r.path, "SELECT count(*) FROM event WHERE kind = 'sensor' AND name = 'energy' AND status = 'absent'"); told != "1" {
			t.Errorf("nothing measures energy here, and the ledger tells it %s times", told)
		}
	}
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("logged though nothing went wrong: %s", line)
	}
}

// TestCountersV2 counts a job's software events in a machine with cgroup v2 and the
// stock kernel; what the kernel accounts elsewhere, in cpu.stat and memory.stat, is
// the truth. The other machine's kernel has no counters.
func TestCountersV2(t *testing.T) {
	if os.Getenv(guestVar) != "" {
		countInGuest(t)
		return
	}
	if os.Getenv("RT_E2E_TCG") == "" {
		t.Skip("make test-counters runs it: an emulated machine takes minutes")
	}
	s := newSite(t, workDir(t))
	cmd := inMachine("slurm-run", shareWithGuest(t, s), "./e2e.test", "-test.run", "^TestCountersV2$", "-test.v", "-test.timeout", "55m")
	cmd.Env = append(cmd.Env, "CG2_BACKEND=tcg", "CG2_NODES=1", "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCountersV2") {
		t.Fatalf("cg2-vm: %v", err)
	}
}

func countInGuest(t *testing.T) {
	s := newSite(t, "/opt/rt")
	s.configure(countersOn)
	c := &cluster{
		name: "cg2", partition: "main", user: "tester", nodes: []string{"n1"},
		asUser: []string{"setpriv", "--reuid=tester", "--regid=tester", "--init-groups", "--"},
	}
	// Debian's kernel begins with 3, and then takes no CAP_PERFMON.
	if err := os.WriteFile("/proc/sys/kernel/perf_event_paranoid", []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := c.submit(t, s, "sleep 2; env RT_TRUTH="+s.path("truth")+" "+s.workload()+" --cpu 15 --touch 150 --hold 1", "-n1", "--mem=400", "-J", "counted")
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Fatalf("the job ended %s and printed %s", j["JobState"], s.output(t, id))
	}
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, "n1")
	t.Log(query(t, r.path, "SELECT group_concat(name || ' ' || status || ': ' || detail, '; ') FROM event WHERE kind = 'sensor'"))
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(query(t, r.path, text), 64)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return v
	}
	first := query(t, r.path, "SELECT min(seq) FROM perf_reading WHERE value IS NOT NULL")
	if first == "" {
		t.Fatal("nothing was counted")
	}
	counted := func(event string) float64 {
		return number("SELECT total(most) FROM (SELECT max(value) AS most FROM perf_reading WHERE event = '" + event + "' GROUP BY perf)")
	}
	since := func(columns string) float64 {
		return number("SELECT max("+columns+") FROM snapshot") - number("SELECT "+columns+" FROM snapshot WHERE seq = "+first)
	}
	is := s.truthOf(t, id, "n1")
	for _, of := range []struct {
		what      string
		got, want float64
	}{
		{"task-clock, s", counted("task-clock") / 1e9, since("job_cpu_usage_us + ifnull(job_stepd_cpu_usage_us, 0)") / 1e6},
		{"page-faults", counted("page-faults"), since("job_page_faults")},
	} {
		t.Logf("%s: counted %.3f, the kernel's account says %.3f; the job itself %v", of.what, of.got, of.want, is.cpu)
		if of.got < 0.99*of.want || of.got > 1.01*of.want {
			t.Errorf("%s differs by more than 1 %%", of.what)
		}
	}
	if counted("context-switches") == 0 {
		t.Error("no context switch was counted")
	}
	reports, status := s.rtSpool(t, "export", "--format", "powerapi-hwpc", strconv.FormatInt(id, 10))
	var report struct {
		Target string
		Groups map[string]any
	}
	line, _, _ := strings.Cut(reports, "\n")
	if err := json.Unmarshal([]byte(line), &report); err != nil || status != 0 || report.Target != "cg2:"+strconv.FormatInt(id, 10) || report.Groups["core"] == nil {
		t.Errorf("export: status %d, %v: %s", status, err, line)
	}
}
