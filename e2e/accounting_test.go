//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSlurmdbd needs a real slurmdbd. One job runs into its time limit, which slurmctld looks at every
// half minute; the other jobs run meanwhile. The slow job has no tracker.
func TestSlurmdbd(t *testing.T) {
	s := newSite(t, workDir(t))
	c := labWith(t, s)
	t.Setenv("SLURM_CONF", s.path("lab", "etc", "slurm.conf"))
	sacct := "#!/bin/sh\nSLURM_CONF=" + s.path("lab", "etc", "slurm.conf") + " exec sacct \"$@\"\n"
	if err := os.WriteFile(s.path("sacct"), []byte(sacct), 0o755); err != nil {
		t.Fatal(err)
	}
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
	t.Run("jobstats", func(t *testing.T) { checkAdminComment(t, s, true) })
	t.Run("sonar", func(t *testing.T) { runSonarSlurm(t, c, s, slow) })
	t.Run("names", func(t *testing.T) { runNames(t, c, s) })
}

// checkAdminComment: sacctmgr accepts the summaries of the jobs of runAccounting, once, and sacct shows them as jobstats
// reads them. An old sacctmgr would change them.
func checkAdminComment(t *testing.T, s *site, isOld bool) {
	write := func() string {
		t.Helper()
		out, err := exec.Command(s.path("bin", "rt-spool"), "--config", s.config(), "jobstats").CombinedOutput()
		if isFailed := err != nil; isFailed != isOld {
			t.Errorf("jobstats: %v, %s", err, out)
		}
		return string(out)
	}
	first, second := write(), write()
	if isOld {
		if !strings.Contains(first, "in lower case before Slurm 23.02") {
			t.Errorf("an old sacctmgr: %s", first)
		}
		return
	}
	if strings.Contains(first, " 0 summaries written") || !strings.Contains(second, " 0 summaries written") {
		t.Errorf("first %s, then %s", first, second)
	}
	out, err := exec.Command("sacct", "--allusers", "--allocations", "--noheader", "--parsable2", "--starttime=now-1hours", "--endtime=now", "--state=COMPLETED", "--format=JobName,AdminComment").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		text, isBurner := strings.CutPrefix(strings.TrimSpace(line), "burner|JS1:")
		if !isBurner {
			continue
		}
		unpack := exec.Command("sh", "-c", "base64 -d | gzip -d")
		unpack.Stdin = strings.NewReader(text)
		summary, err := unpack.Output()
		if err != nil || !strings.Contains(string(summary), `"total_memory":104857600,"used_memory":`) {
			t.Errorf("the summary of burner: %v, %s", err, summary)
		}
		return
	}
	t.Errorf("no summary of burner in %s", out)
}

// runAccounting drains while the slow job runs. sacct has the outcomes that the Epilog does not report, also for jobs
// that have just ended and for a job without its tracker.
func runAccounting(t *testing.T, c *cluster, s *site) {
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

// compareWithSacct compares our figures of a job with sacct's, as the report shows them.
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

// runNames: while a job of root runs, another user gives jobs names that look like its record. They change and delay
// nothing, in the spool and at the site.
func runNames(t *testing.T, c *cluster, s *site) {
	s.configure(nil)
	held := s.path("out", "held")
	if err := os.WriteFile(held, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	script := "while [ -e " + held + " ]; do sleep 0.1; done"
	text := c.root(t, "sbatch", "--parsable", "--output=/dev/null", "-n1", "--mem=20", "-w", c.nodes[1], "-J", "real", "--wrap", script+"; exit 3")
	victim, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	began := func(job int64) string {
		var start string
		until(t, "job to run", func() bool {
			start = strings.TrimSpace(c.root(t, "squeue", "--noheader", "--states=RUNNING", "--format=%S", fmt.Sprint("--jobs=", job)))
			return start != ""
		})
		return start
	}
	wanted := submitOddNames(t, c, s, script, victim, began)
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of all jobs", func() bool { return c.root(t, "squeue", "--noheader", "--format=%i") == "" })
	settle(t, s.path("spool"))
	before := columnsOf(t, onlyRun(t, s, victim, c.nodes[1]).path)
	readers := s.path("readers")
	if err := os.WriteFile(readers, []byte("token-of-root user=root\ntoken-of-user user="+c.user+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := serve(t, s, s.path("spool"), "drain.sacct", fmt.Sprintf("%q", s.path("sacct")), "serve.read_token_file", fmt.Sprintf("%q", readers))
	until(t, "every run to be delivered", func() bool {
		if out, status := s.rtSpool(t, "drain"); status != 0 || out != "" {
			t.Fatalf("drain ended with %d and printed %q", status, out)
		}
		isWaiting := func(r spooled) bool { return r.State != "delivered" }
		return !slices.ContainsFunc(runs(t, s.path("spool")), isWaiting)
	})
	run := onlyRun(t, s, victim, c.nodes[1])
	isRoots := run.User == "root" && run.UID == 0 && run.Account != "evil" && run.JobName == "real"
	if !isRoots || run.Outcome != "failed" || run.Source != "sacct" || run.ExitCode.Int64 != 3 || run.NodeList != c.nodes[1] {
		t.Errorf("the job of root is %+v", run)
	}
	now := columnsOf(t, run.path)
	checkUnchanged(t, before, now)
	t.Logf("%d jobs had odd names while job %d of root ran", len(wanted), victim)
	checkOddNames(t, c, s, wanted)
	for reader, sees := range map[string]bool{"token-of-root": true, "token-of-user": false} {
		as := *r
		as.token = reader
		list := string(as.get(t, "/v1/jobs"))
		if isThere := strings.Contains(list, fmt.Sprintf(`"job_id":%d,`, victim)); isThere != sees {
			t.Errorf("the job of root is in the list of %s: %v\n%s", reader, isThere, list)
		}
		if sees {
			checkAtSite(t, []byte(list), victim, now)
		}
	}
}

// columnsOf returns the run of a spool file: its columns with their values.
func columnsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range lines(query(t, path, "SELECT group_concat(name, char(10)) FROM pragma_table_info('run')")) {
		all[name] = query(t, path, fmt.Sprintf("SELECT quote(%q) FROM run", name))
	}
	return all
}

// checkUnchanged: a drain has added what only accounting knows, from the job's own record, and has changed nothing else.
func checkUnchanged(t *testing.T, before, now map[string]string) {
	t.Helper()
	added := map[string]string{
		"state": "'delivered'", "outcome": "'failed'", "outcome_source": "'sacct'", "exit_code": "3", "exit_signal": "0", "derived_exit": "0",
		"qos": "'normal'", "alloc_mem_bytes": strconv.Itoa(20 << 20),
		"job_name": "'real'", // on a busy machine the looks at the job's processes can be too seldom to read it
	}
	differs := []string{"job_start_us", "job_end_limit_us", "delivered_us", "external_run_id", "account", "tags"} // from run to run
	var changed []string
	for name, value := range now {
		if value == before[name] {
			continue
		}
		changed = append(changed, name+" "+before[name]+" to "+value)
		isForged := strings.Contains(value, "evil") || strings.Contains(value, "forged")
		isExpected := value == added[name] || slices.Contains(differs, name)
		if isForged || !isExpected {
			t.Errorf("the job of root: %s was %s and is %s", name, before[name], value)
		}
	}
	slices.Sort(changed)
	t.Logf("of %d columns of the job of root these changed: %q", len(now), changed)
}

// checkAtSite compares a job in the list of rt-site with its run in the spool.
func checkAtSite(t *testing.T, list []byte, id int64, run map[string]string) {
	t.Helper()
	var got struct {
		Jobs []map[string]any `json:"jobs"`
	}
	if err := json.Unmarshal(list, &got); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	found := 0
	for _, job := range got.Jobs {
		if job["job_id"] != float64(id) {
			continue
		}
		found++
		for _, name := range []string{"cluster", "user", "account", "partition", "job_name", "outcome"} {
			want := strings.Trim(run[name], "'")
			if value, _ := job[name].(string); value != want && run[name] != "NULL" {
				t.Errorf("at the site %s is %q, in the spool %s", name, value, run[name])
			}
		}
	}
	if found != 1 {
		t.Errorf("%d jobs %d at the site: %s", found, id, list)
	}
}

// submitOddNames submits jobs with names that look like the record of another one, and renames one while it runs.
// It returns their names.
func submitOddNames(t *testing.T, c *cluster, s *site, script string, victim int64, began func(int64) string) map[int64]string {
	t.Helper()
	start := began(victim)
	user, err := user.Lookup(c.user)
	if err != nil {
		t.Fatal(err)
	}
	forged := []string{
		fmt.Sprintf("x\nlab|%d|%d|CANCELLED by %s|9:0|0:0|%s.001|Unknown|normal||%s|evil|lab|n9|1|60|cpu=1|forged", victim, victim, user.Uid, start, c.user),
		fmt.Sprintf("x\nlab|%d|%d|%d|%s|CANCELLED by %s|9:0|0:0|%s|Unknown|1|60|cpu=1", victim, victim, victim, user.Uid, user.Uid, start),
	}
	names := append([]string{"two\nlines", "cr\r\nlf", "a|b|c", "\u2028", strings.Repeat("n", 1024)}, forged...)
	wanted := map[int64]string{}
	odd := s.path("out", "a|b\nc")
	if err := os.MkdirAll(odd, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		id := c.submit(t, s, script, "-n1", "--mem=20", "-w", c.nodes[0], "-J", name, "--comment", name, "--account", name, "--wckey", "a|b", "--chdir", odd, "--output=/dev/null")
		wanted[id] = name
	}
	renamed := c.submit(t, s, script, "-n1", "--mem=20", "-w", c.nodes[1], "-J", "plain")
	began(renamed)
	command(t, c.asUser[0], append(c.asUser[1:], "scontrol", "update", fmt.Sprint("JobId=", renamed), "JobName="+forged[0])...)
	wanted[renamed] = forged[0]
	return wanted
}

// checkOddNames: each of the jobs has its own name and end. slurmdbd cuts a long name, and may lack U+2028.
func checkOddNames(t *testing.T, c *cluster, s *site, wanted map[int64]string) {
	t.Helper()
	for id, name := range wanted {
		for _, run := range runsOf(t, s.path("spool"), id) {
			shown := strings.NewReplacer("\r", "?", "\n", "?").Replace(name)
			isNamed := run.JobName == shown || strings.HasPrefix(shown, run.JobName)
			if run.User != c.user || run.Outcome != "finished" || run.Source != "sacct" || (!isNamed && name != "\u2028") {
				t.Errorf("job %d, named %q: %+v", id, name, run)
			}
		}
	}
}
