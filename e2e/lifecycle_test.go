//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLifecycle changes the state of jobs between Prolog and Epilog, and that of Slurm's
// daemons. Each attempt has one run per node, its rates are possible, and its gaps have a
// cause in the ledger.
func TestLifecycle(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	t.Run("requeue", func(t *testing.T) { runRequeue(t, c, s) })
	t.Run("nodes", func(t *testing.T) { // each subtest has its own node
		t.Run("suspend", func(t *testing.T) { runSuspend(t, c, s, c.nodes[1]) })
		t.Run("slurmd", func(t *testing.T) {
			t.Parallel()
			t.Run("killed", func(t *testing.T) { runSlurmdKilled(t, c, s) })
			t.Run("epilog-late", func(t *testing.T) { runEpilogLate(t, c, s) })
			t.Run("epilog-twice", func(t *testing.T) { runEpilogTwice(t, c, s) })
		})
	})
	settle(t, s.path("spool"))
	for _, r := range runs(t, s.path("spool")) {
		possible(t, r)
	}
	c.healthy(t)
	for _, line := range s.logLines(t) {
		t.Errorf("unexpected log line: %s", line)
	}
}

// runRequeue requeues a job of two nodes while it runs. Slurm increments its restart count
// before the Epilogs of the attempt that ends.
func runRequeue(t *testing.T, c *cluster, s *site) {
	again := &site{t: t, dir: s.path("again")}
	if err := os.MkdirAll(again.path("truth"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(again.path("truth"), 0o1777); err != nil {
		t.Fatal(err)
	}
	w := s.workload()
	id := c.submit(t, s, `if [ -z "$SLURM_RESTART_COUNT" ]; then
  srun env RT_TRUTH=`+s.path("truth")+" "+w+` --cpu 1 --touch 24 --hold 100
else
  srun env RT_TRUTH=`+again.path("truth")+" "+w+` --cpu 0.3 --touch 8
fi`, "-N2", "--ntasks-per-node=1", "--mem=100", "--requeue", "-J", "again")
	until(t, "both tasks of the job to have used their CPU time", func() bool {
		busy := 0
		for _, pid := range pidsOf(t, w, id) {
			if cpuOf(pid) >= 900*time.Millisecond {
				busy++
			}
		}
		return busy == 2
	})
	c.requeue(t, s, id)
	j := c.wait(t, id)[id]
	if j["JobState"] != "COMPLETED" || j["Restarts"] != "1" {
		t.Errorf("the job ended %s after %s restarts", j["JobState"], j["Restarts"])
	}
	settle(t, s.path("spool"))
	for _, node := range c.nodes {
		mine := of(t, s, id, node)
		if len(mine) != 2 {
			t.Fatalf("%s has %d runs of the job want 2: %s", node, len(mine), describe(mine))
		}
		for i, truths := range []*site{s, again} {
			if n := query(t, mine[i].path, "SELECT attempt FROM run"); n != strconv.Itoa(i) {
				t.Errorf("%s is attempt %s", mine[i].path, n)
			}
			e := expected{jobID: id, node: node, job: j, truth: id}
			if apart := checkFigures(t, truths, e, mine[i]); apart != "" {
				t.Error(apart)
			}
			if mine[i].State != "ended" {
				t.Errorf("%s is %s", mine[i].path, mine[i].State)
			}
		}
		if overlap := query(t, mine[0].path, "SELECT end_us FROM run") > query(t, mine[1].path, "SELECT start_us FROM run"); overlap {
			t.Errorf("%s ends after %s begins", mine[0].path, mine[1].path)
		}
	}
}

// requeue requeues a running job and starts it again at once. No other job may run.
func (c *cluster) requeue(t *testing.T, s *site, id int64) {
	t.Helper()
	c.root(t, "scontrol", "requeue", fmt.Sprint(id))
	until(t, "the job to be in the queue again", func() bool { return c.jobs(t, id)[id]["JobState"] == "PENDING" })
	// The job would wait in the queue for two minutes, in which slurmd still has the job's
	// credential and runs no Prolog for it.
	for i, node := range c.nodes {
		slurmd(t, "stop-slurmd", node)
		if err := os.RemoveAll(s.path("lab", "spool", node, "cred_state")); err != nil {
			t.Fatal(err)
		}
		slurmd(t, "start-slurmd", node)
		port, err := strconv.Atoi(os.Getenv("SLURM_LAB_PORT"))
		if err != nil {
			t.Fatal(err)
		}
		until(t, "slurmd to listen", func() bool { // otherwise srun may arrive before the Prolog
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port+11+i))
			return err == nil && conn.Close() == nil
		})
	}
	c.root(t, "scontrol", "update", "JobId="+fmt.Sprint(id), "StartTime=now")
}

// runSuspend suspends and resumes a job: its wall clock continues, its CPU time does not.
func runSuspend(t *testing.T, c *cluster, s *site, node string) {
	t.Parallel()
	id := c.submit(t, s, "env RT_TRUTH="+s.path("truth")+" "+s.workload()+" --cpu 3600; exit 0", "-n1", "--mem=60", "-w", node, "-J", "paused")
	var pid int
	until(t, "the job to use CPU time", func() bool {
		for _, p := range pidsOf(t, s.workload(), id) {
			if cpuOf(p) >= 500*time.Millisecond {
				pid = p
			}
		}
		return pid != 0
	})
	c.root(t, "scontrol", "suspend", fmt.Sprint(id))
	until(t, "the job to be suspended", func() bool { return stateOf(pid) != "R" }) // frozen: D
	path := onlyRun(t, s, id, node).path
	until(t, "readings of a suspended job", func() bool {
		return query(t, path, "SELECT count(*) >= 2 FROM sample WHERE reason = 'tick' AND job_phase = 'present' AND job_cores = 0") == "1"
	})
	before := cpuOf(pid)
	c.root(t, "scontrol", "resume", fmt.Sprint(id))
	until(t, "the job to continue", func() bool { return cpuOf(pid) >= before+500*time.Millisecond })
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	settle(t, s.path("spool"), id)
	r := onlyRun(t, s, id, node)
	if apart := checkFigures(t, s, expected{jobID: id, node: node, truth: id}, r); apart != "" {
		t.Error(apart)
	}
}

// stateOf returns the state letter of /proc/<pid>/stat, empty if the process is gone.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

// runSlurmdKilled kills a job's slurmd and starts it again while the job runs. The tracker
// is no child of slurmd and is not affected.
func runSlurmdKilled(t *testing.T, c *cluster, s *site) {
	release := s.path("out", "release-slurmd")
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "-w", c.nodes[0], "-J", "orphan")
	path := c.waitForReadings(t, s, id, 3)
	slurmd(t, "stop-slurmd", c.nodes[0], "--kill")
	before := count(path)
	until(t, "readings without a slurmd", func() bool { return count(path) >= before+3 })
	slurmd(t, "start-slurmd", c.nodes[0])
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	settle(t, s.path("spool"), id)
	r := onlyRun(t, s, id, c.nodes[0])
	if r.State != "ended" || r.Outcome != "finished" {
		t.Errorf("%s is %s, %s", path, r.State, r.Outcome)
	}
	if apart := checkFigures(t, s, expected{jobID: id, node: c.nodes[0], truth: id}, r); apart != "" {
		t.Error(apart)
	}
	if gaps := query(t, path, "SELECT count(*) FROM event WHERE kind = 'gap'"); gaps != "0" {
		t.Errorf("%s names %s gaps", path, gaps)
	}
}

// runEpilogLate ends a job while its slurmd is dead: the tracker exits after its grace
// time, and the Epilog that slurmd runs after its restart has nothing to do.
func runEpilogLate(t *testing.T, c *cluster, s *site) {
	s.configure(map[string]string{"tracker.grace": `"4s"`}) // no other job needs its Epilog that soon
	defer s.configure(nil)
	release := s.path("out", "release-late")
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "-w", c.nodes[0], "-J", "late")
	path := c.waitForReadings(t, s, id, 3)
	slurmd(t, "stop-slurmd", c.nodes[0], "--kill")
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "the job's processes to end", func() bool { return s.truthOf(t, id, c.nodes[0]).reports == 1 })
	endExtern(t, c.nodes[0], id)
	until(t, "the tracker to end by itself", func() bool { return !exists(path + "-wal") })
	r := readRun(t, path)
	if r.State != "ended" {
		t.Errorf("%s is %s", path, r.State)
	}
	if events := query(t, path, "SELECT count(*) FROM event WHERE name = 'epilog' AND status = 'absent'"); events != "1" {
		t.Errorf("%s has %s events for the missing Epilog, want 1", path, events)
	}
	slurmd(t, "start-slurmd", c.nodes[0])
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	if apart := checkFigures(t, s, expected{jobID: id, node: c.nodes[0], truth: id}, onlyRun(t, s, id, c.nodes[0])); apart != "" {
		t.Error(apart)
	}
	until(t, "the late Epilog to remove its state", func() bool {
		left, err := filepath.Glob(s.path("state", fmt.Sprintf("%d@*", id)))
		return err == nil && len(left) == 0
	})
}

// endExtern ends the extern step of a job, which survives its slurmd.
func endExtern(t *testing.T, node string, id int64) {
	t.Helper()
	procs, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/freezer/slurm_%s/uid_*/job_%d/step_extern/cgroup.procs", node, id))
	if err != nil || len(procs) == 0 {
		t.Fatalf("no extern step of job %d on %s: %v", id, node, err)
	}
	ended := 0
	for _, path := range procs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines(string(text)) {
			pid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || string(comm) != "sleep\n" {
				continue // slurmstepd ends after its task
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ended++
		}
	}
	if ended != 1 {
		t.Fatalf("%d processes in the extern step of job %d", ended, id)
	}
}

// runEpilogTwice runs a job's Epilog a second time after its end, as some versions of Slurm
// do.
func runEpilogTwice(t *testing.T, c *cluster, s *site) {
	id := plainJob(t, c, s)
	settle(t, s.path("spool"), id)
	before := onlyRun(t, s, id, c.nodes[0])
	is, err := os.ReadFile(before.path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.path("epilog"))
	cmd.Env = []string{
		"SLURM_JOB_ID=" + fmt.Sprint(id), "SLURM_JOBID=" + fmt.Sprint(id), "SLURM_UID=" + fmt.Sprint(before.UID), "SLURM_JOB_UID=" + fmt.Sprint(before.UID),
		"SLURMD_NODENAME=" + c.nodes[0], "SLURM_CLUSTER_NAME=" + c.name, "SLURM_SCRIPT_CONTEXT=epilog_slurmd",
		"SLURM_JOB_EXIT_CODE=256", "SLURM_JOB_EXIT_CODE2=1:0", "SLURM_JOB_RESTART_COUNT=0",
	}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("the second Epilog: %v, %s", err, out)
	}
	after, err := os.ReadFile(before.path)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != string(after) {
		t.Errorf("the second Epilog has changed %s", before.path)
	}
}

// heldJob is a script that uses CPU time, waits for a file, and uses CPU time again.
func heldJob(s *site, release string) string {
	return "exec env RT_TRUTH=" + s.path("truth") + " " + s.workload() + " -- bash -c '" +
		s.workload() + " --cpu 0.5 --touch 16; until [ -e " + release + " ]; do sleep 0.1; done; " + s.workload() + " --cpu 0.4'"
}

// waitForReadings waits until the given number of snapshots of a job on the first node is
// committed and the job has used CPU time, and returns the run's file.
func (c *cluster) waitForReadings(t *testing.T, s *site, id, n int64) (path string) {
	t.Helper()
	until(t, "readings", func() bool {
		files, err := filepath.Glob(s.path("spool", fmt.Sprintf("job-%d-*.db", id)))
		if err != nil || len(files) != 1 {
			return false
		}
		path = files[0]
		return count(path) >= n && query(t, path, "SELECT ifnull(max(job_cpu_usage_us), 0) >= 500000 FROM snapshot") == "1"
	})
	return path
}

// of returns the runs of a job on a node, in the order of their attempts.
func of(t *testing.T, s *site, id int64, node string) (mine []spooled) {
	t.Helper()
	for _, r := range runsOf(t, s.path("spool"), id) {
		if r.Node == node {
			mine = append(mine, r)
		}
	}
	if len(mine) == 2 && query(t, mine[0].path, "SELECT start_us FROM run") > query(t, mine[1].path, "SELECT start_us FROM run") {
		mine[0], mine[1] = mine[1], mine[0]
	}
	return mine
}

func onlyRun(t *testing.T, s *site, id int64, node string) spooled {
	t.Helper()
	mine := of(t, s, id, node)
	if len(mine) != 1 {
		t.Fatalf("job %d has %d runs on %s want 1: %s", id, len(mine), node, describe(mine))
	}
	return mine[0]
}

// possible compares the rates of a run with what this machine can do. The view has no rate
// where a counter decreased, so the counters are checked as well. A reading is not one
// instant: if its tracker has to wait in the middle, the job's work is in one interval and
// the time in the next. The limit is several times the possible.
func possible(t *testing.T, r spooled) {
	t.Helper()
	const rates = `SELECT count(*) FROM sample WHERE seconds < 0 OR job_cores < 0 OR node_cores < 0
		OR seconds > 0.25 AND job_cores > 4 * node_cpus OR node_cores > node_cpus`
	const falls = `SELECT count(*) FROM (SELECT job_cpu_usage_us - lag(job_cpu_usage_us) OVER (ORDER BY seq) AS cpu,
		boot_us - lag(boot_us) OVER (ORDER BY seq) AS boot FROM snapshot WHERE job_cpu_usage_us IS NOT NULL) WHERE cpu < 0 OR boot < 0`
	for _, q := range []string{rates, falls} {
		if n := query(t, r.path, q); n != "0" {
			t.Errorf("%s: %s samples are impossible: %s", r.path, n, q)
		}
	}
}

// slurmd kills or starts one of the lab's slurmds.
func slurmd(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("../contrib/lab/slurm-lab", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // its children outlive it
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("slurm-lab %v: %v\n%s", args, err, out)
	}
}
