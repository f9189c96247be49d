//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSrun tracks steps without root. srun starts resource-tracker as each task. One of them on each node tracks the
// step while the others exec their commands.
func TestSrun(t *testing.T) {
	s := newSite(t, workDir(t))
	s.configure(nil)
	if err := os.WriteFile(s.path("disabled"), nil, 0o644); err != nil { // disables the node's trackers
		t.Fatal(err)
	}
	if err := os.Mkdir(s.path("home"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.path("home"), 0o1777); err != nil {
		t.Fatal(err)
	}
	c := lab(t, s)
	t.Run("sixteen", func(t *testing.T) { runSixteen(t, c, s) })
	t.Run("unequal", func(t *testing.T) { runUnequal(t, c, s) })
	t.Run("bad-exit", func(t *testing.T) { runBadExit(t, c, s) })
	t.Run("as-if-not-there", func(t *testing.T) { runTransparent(t, c, s) })
	t.Run("oom", func(t *testing.T) { runStepOOM(t, c, s) })
	t.Run("streaming", func(t *testing.T) { runStreaming(t, c, s) })
	c.healthy(t)
}

// step submits a script with steps that put their runs into a directory of the user, and
// returns the job's id and that directory. In the script RT is resource-tracker and W the
// workload.
func (c *cluster) step(t *testing.T, s *site, script string, args ...string) (id int64, spool string) {
	t.Helper()
	home := s.path("home", t.Name()[strings.LastIndexByte(t.Name(), '/')+1:])
	text := strings.NewReplacer("RT ", s.path("bin", "resource-tracker")+" -i 1 -- ", "W ", "env RT_TRUTH="+s.path("truth")+" "+s.workload()+" ").Replace(script)
	id = c.submit(t, s, "mkdir -p "+home+"; export HOME="+home+"; unset XDG_STATE_HOME\n"+text, append(args, "-J", "by-srun")...)
	return id, filepath.Join(home, ".local", "state", "rt")
}

// withoutSummaries removes the lines that resource-tracker prints at the end of a step.
func withoutSummaries(output string) (rest string) {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "resource-tracker: Job ") {
			rest += line
		}
	}
	return rest
}

// stepRuns returns the runs of a step by node.
func stepRuns(t *testing.T, spool string, id int64, step string) map[string]spooled {
	t.Helper()
	mine := map[string]spooled{}
	for _, r := range runs(t, spool) {
		if r.JobID != id || query(t, r.path, "SELECT step FROM run") != step {
			continue
		}
		if _, twice := mine[r.Node]; twice {
			t.Errorf("two trackers of step %d.%s on %s", id, step, r.Node)
		}
		mine[r.Node] = r
	}
	return mine
}

// runSixteen runs 16 tasks on two nodes: there are two runs, which have the usage of all
// tasks.
func runSixteen(t *testing.T, c *cluster, s *site) {
	id, spool := c.step(t, s, "srun -O -n16 --ntasks-per-node=8 RT W --cpu 0.5 --touch 6", "-N2", "--ntasks-per-node=1", "--mem=300")
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" || withoutSummaries(s.output(t, id)) != "" {
		t.Errorf("the job ended %s and printed %q", j["JobState"], s.output(t, id))
	}
	mine := stepRuns(t, spool, id, "0")
	if len(mine) != 2 {
		t.Fatalf("%d runs, want 2", len(mine))
	}
	for _, node := range c.nodes {
		r, is := mine[node], s.truthOf(t, id, node)
		if is.reports != 8 || len(is.tasks) != 8 {
			t.Errorf("%d commands ran on %s as %d tasks", is.reports, node, len(is.tasks))
		}
		if r.State != "ended" || r.Outcome != "finished" || r.JobName != "by-srun" || r.User != c.user || r.Partition != c.partition || r.Cluster != c.name {
			t.Errorf("%s is %s, %s, of job %q of %q in %q of %q", r.path, r.State, r.Outcome, r.JobName, r.User, r.Partition, r.Cluster)
		}
		checkStep(t, r, is)
	}
}

// checkStep compares the CPU time of step 0 and of each task with the reports of its processes and with the tracker's
// own CPU time.
func checkStep(t *testing.T, r spooled, is truth) {
	t.Helper()
	of := func(where string) time.Duration {
		us, err := strconv.ParseInt(query(t, r.path, "SELECT ifnull(max(cpu_usage_us), -1) FROM step_reading WHERE step = '0' AND task "+where), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(us) * time.Microsecond
	}
	// One task is the tracker's, which reports its own CPU time until the end of its readings.
	cost := trackerCost(t, r)
	got := of("IS NULL")
	if high, low := is.disagrees(got); low || high && got > is.cpu+cost+is.slack() {
		t.Errorf("%s: step 0 used %v, its processes report %v, the tracker %v", r.path, got, is.cpu, cost)
	}
	trackers := 0
	for task, said := range is.tasks {
		got := of("= " + task)
		high, low := said.disagrees(got)
		if high && got < said.cpu+cost+said.slack() {
			trackers, high = trackers+1, false
		}
		if high || low {
			t.Errorf("%s: task %s used %v, its process reports %v", r.path, task, got, said.cpu)
		}
	}
	if n := query(t, r.path, "SELECT count(DISTINCT task) FROM step_reading WHERE step = '0'"); n != strconv.Itoa(len(is.tasks)) || trackers > 1 {
		t.Errorf("%s: %s tasks are recorded, want %d; %d have a tracker", r.path, n, len(is.tasks), trackers)
	}
	t.Logf("%s: step %v, its processes %v (%v before they began), the tracker %v, %d tasks", r.Node, got, is.cpu, is.began, cost, len(is.tasks))
}

// trackerCost returns the CPU time of a tracker from its last report.
func trackerCost(t *testing.T, r spooled) (used time.Duration) {
	t.Helper()
	for field := range strings.FieldsSeq(query(t, r.path, "SELECT detail FROM event WHERE kind = 'tracker' AND name = 'cost'")) {
		name, value, _ := strings.Cut(field, "=")
		if secs, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "cpu_") {
			used += time.Duration(secs * float64(time.Second))
		}
	}
	return used
}

// runStreaming sends the runs of a step while they are recorded. The rt-spool of each tracker is no task, and
// no process remains when the step has ended.
func runStreaming(t *testing.T, c *cluster, s *site) {
	to := serve(t, s, s.path("streamed"))
	id, spool := c.step(t, s, `export SENTINEL_API_TOKEN=`+to.token+` SENTINEL_API_URL=`+to.url+` AWS_ENDPOINT_URL=`+to.url+` TRACKER_UPLOAD_INTERVAL=1
for fact in VENDOR_ID ACCOUNT_ID REGION_ID ZONE_ID INSTANCE_TYPE; do export TRACKER_CLOUD_$fact=0; done
srun -O -n4 --ntasks-per-node=2 RT sleep 5; echo srun said $?`, "-N2", "--ntasks-per-node=1", "--mem=300")
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" || withoutSummaries(s.output(t, id)) != "srun said 0\n" {
		t.Errorf("the job ended %s and printed %q", j["JobState"], s.output(t, id))
	}
	mine := stepRuns(t, spool, id, "0")
	if len(mine) != 2 {
		t.Errorf("%d runs, want 2", len(mine))
	}
	for _, r := range mine {
		if r.State != "delivered" || r.Outcome != "finished" {
			t.Errorf("%s is %s, %s", r.path, r.State, r.Outcome)
		}
		// The other task may end a moment later. The rt-spool is no third one.
		if n := query(t, r.path, "SELECT count(*) FROM event WHERE kind = 'job' AND name = 'tasks' AND detail NOT LIKE '1 other task of %'"); n != "0" {
			t.Errorf("%s has %s events of other tasks than the second", r.path, n)
		}
		if n := query(t, r.path, "SELECT count(*) FROM event WHERE kind = 'tracker' AND name = 'stream' AND detail LIKE 'cpu_user_secs=%'"); n != "1" {
			t.Errorf("%s has %s events of what the sending has used", r.path, n)
		}
	}
	received := to.runs(t)
	for _, r := range received {
		if r.Status != "finished" || r.Rows < 3 {
			t.Errorf("received %+v", r)
		}
	}
	if len(received) != 2 {
		t.Errorf("%d runs were received, want 2", len(received))
	}
}

// runBadExit makes one of 16 tasks fail while the others run, so that srun ends them. srun reports the same as
// without us, and both runs end.
func runBadExit(t *testing.T, c *cluster, s *site) {
	id, spool := c.step(t, s, `srun -O -n16 --ntasks-per-node=8 --kill-on-bad-exit=1 RT bash -c '
if [ $SLURM_PROCID != 3 ]; then exec W -- bash -c "`+s.workload()+` --cpu 0.2; : >$HOME/ready.$SLURM_PROCID; exec sleep 3600"; fi
until [ $(ls $HOME | grep -c ready) = 15 ]; do sleep 0.1; done
exec W --cpu 0.2 --exit 9'
echo srun said $?`, "-N2", "--ntasks-per-node=1", "--mem=300")
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	out := s.output(t, id)
	if !strings.Contains(out, "task 3: Exited with exit code 9") || !strings.Contains(out, "srun said 143") {
		t.Errorf("the job printed %q", out)
	}
	mine := stepRuns(t, spool, id, "0")
	if len(mine) != 2 {
		t.Errorf("%d runs, want 2", len(mine))
	}
	for node, r := range mine {
		if r.State != "ended" || r.Outcome == "finished" || r.Outcome == "" {
			t.Errorf("%s is %s, %q", r.path, r.State, r.Outcome)
		}
		checkStep(t, r, s.truthOf(t, id, node))
	}
}

// runTransparent compares exit statuses and signals with those without resource-tracker.
func runTransparent(t *testing.T, c *cluster, s *site) {
	id, _ := c.step(t, s, `for how in "exit 0" "exit 7" "kill -TERM \$\$" "kill -SEGV \$\$" "kill -KILL \$\$"; do
  srun -n1 bash -c "$how" 2>/dev/null; alone=$?
  srun -n1 RT bash -c "$how" 2>/dev/null; echo "$how: $alone $?"; done`, "-n1", "--mem=100")
	c.wait(t, id)
	said := lines(s.output(t, id))
	if len(said) != 5 {
		t.Errorf("the job printed %q", said)
	}
	for _, line := range said {
		how, statuses, _ := strings.Cut(line, ": ")
		if alone, with, ok := strings.Cut(statuses, " "); !ok || alone != with {
			t.Errorf("%s: srun reports %s without and %s with resource-tracker", how, alone, with)
		}
	}
}

// runStepOOM exceeds the memory limit of a step: its run has the OOM kill, the step and its
// limit.
func runStepOOM(t *testing.T, c *cluster, s *site) {
	id, spool := c.step(t, s, `srun -n1 RT W --touch 300; echo srun said $?`, "-n1", "--mem=60")
	c.wait(t, id)
	r, ok := stepRuns(t, spool, id, "0")[c.nodes[0]]
	if !ok {
		t.Fatalf("no run in %s; the job printed %q", spool, s.output(t, id))
	}
	if r.State != "ended" || r.Outcome != "oom" || r.Source != "kernel" {
		t.Errorf("%s is %s, %q by %q", r.path, r.State, r.Outcome, r.Source)
	}
	if events := query(t, r.path, "SELECT count(*) FROM event WHERE name = 'oom_kill' AND detail LIKE '%in step 0%memory_limit_bytes=62914560%'"); events != "1" {
		t.Errorf("%s has %s events of the kill, want 1", r.path, events)
	}
}
