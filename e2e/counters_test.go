//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
)

// countersOn makes trackers count software events, and energy where there is a source.
var countersOn = map[string]string{"perf.core": `"task-clock,page-faults,context-switches"`, "tracker.first_interval": `"250ms"`}

// TestCounters runs a job with counters on where Slurm makes no cgroup that perf events support. The run has no
// counters, its ledger has the reason, and nothing else changes.
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
		t.Errorf("%s counters were read, want 0", n)
	}
	detail := query(t, r.path, "SELECT group_concat(status || ': ' || detail, '; ') FROM event WHERE kind = 'sensor' AND name = 'perf'")
	if !strings.HasPrefix(detail, "not supported: ") || !strings.Contains(detail, "job_"+strconv.FormatInt(id, 10)) {
		t.Errorf("the ledger has these events of the counters: %q", detail)
	}
	t.Log(detail)
	if n := query(t, r.path, "SELECT count(*) FROM energy"); n == "0" {
		if events := query(t, r.path, "SELECT count(*) FROM event WHERE kind = 'sensor' AND name = 'energy' AND status = 'absent'"); events != "1" {
			t.Errorf("this machine has no energy counter, and the ledger reports that %s times, want 1", events)
		}
	}
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("unexpected log line: %s", line)
	}
}

// TestCountersV2 counts a job's software events in a machine with cgroup v2 and the stock
// kernel, and compares them with cpu.stat and memory.stat. The kernel of the other virtual
// machine has no counters.
func TestCountersV2(t *testing.T) {
	if os.Getenv(guestVar) != "" {
		countInGuest(t)
		return
	}
	if os.Getenv("RT_E2E_TCG") == "" {
		t.Skip("contrib/test/counters runs it: an emulated machine takes minutes")
	}
	s := newSite(t, workDir(t))
	cmd := inMachine("bookworm", "slurm-run", shareWithGuest(t, s), "./e2e.test", "-test.run", "^TestCountersV2$", "-test.v", "-test.timeout", "55m")
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
	// Debian's default is 3, which refuses CAP_PERFMON.
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
		t.Logf("%s: counted %.3f, the kernel reports %.3f; the job reports %v", of.what, of.got, of.want, is.cpu)
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
