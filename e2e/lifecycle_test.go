//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLifecycle changes the state of jobs between Prolog and Epilog, and the state of Slurm's daemons. Each attempt
// has one run per node, its rates are possible, and its gaps have a cause in the ledger.
func TestLifecycle(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	runLifecycle(t, c, s)
}

// runLifecycle runs the jobs of TestLifecycle.
func runLifecycle(t *testing.T, c *cluster, s *site) {
	t.Run("requeue", func(t *testing.T) { runRequeue(t, c, s) })
	t.Run("nodes", func(t *testing.T) { // each subtest has its own node
		t.Run("suspend", func(t *testing.T) { runSuspend(t, c, s, c.nodes[1]) })
		t.Run("slurmd", func(t *testing.T) {
			if !c.oneByOne {
				t.Parallel()
			}
			t.Run("killed", func(t *testing.T) { runSlurmdKilled(t, c, s) })
			t.Run("restarts", func(t *testing.T) { runSlurmdRestarts(t, c, s) })
			if !c.bySLUID { // there the extern step has no process that could be ended without slurmd
				t.Run("epilog-late", func(t *testing.T) { runEpilogLate(t, c, s) })
			}
			t.Run("epilog-twice", func(t *testing.T) { runEpilogTwice(t, c, s) })
		})
	})
	checkLifecycle(t, c, s)
}

// checkLifecycle checks all runs of the spool, the nodes and the log.
func checkLifecycle(t *testing.T, c *cluster, s *site) {
	t.Helper()
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
// before the Epilogs of the attempt that ends. On the second node Slurm cannot remove the job's cgroup,
// and the second attempt uses it again, if it is named by the job's number.
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
  `+srunInodes(s)+w+` --cpu 1 --touch 24 --hold 100
else
  `+srunInodes(again)+w+` --cpu 0.3 --touch 8
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
	left := c.leaveBehind(t, c.nodes[1], id)
	c.requeue(t, id)
	j := c.wait(t, id)[id]
	removeAll(t, left)
	if j["JobState"] != "COMPLETED" || j["Restarts"] != "1" {
		t.Errorf("the job ended %s after %s restarts", j["JobState"], j["Restarts"])
	}
	settle(t, s.path("spool"))
	for _, node := range c.nodes {
		mine := of(t, s, id, node)
		if len(mine) != 2 {
			t.Fatalf("%s has %d runs of the job want 2: %s", node, len(mine), describe(mine))
		}
		// On a slow node Slurm itself sometimes leaves the cgroup of the first attempt behind.
		isLeft := sharesInode(inodes(t, s, node), inodes(t, again, node))
		if mustBeLeft := node == c.nodes[1] && len(left) > 0; mustBeLeft && !isLeft {
			t.Errorf("%s: the second attempt does not use the cgroup of the first", node)
		}
		isNoted := query(t, mine[1].path, "SELECT count(*) FROM event WHERE kind = 'job' AND name = 'earlier attempt'") != "0"
		if isLeft && !isNoted {
			t.Errorf("%s: the ledger does not have the earlier attempt", mine[1].path)
		}
		for i, truths := range []*site{s, again} {
			if n := query(t, mine[i].path, "SELECT attempt FROM run"); n != strconv.Itoa(i) {
				t.Errorf("%s is attempt %s", mine[i].path, n)
			}
			e := expected{jobID: id, node: node, job: j, truth: id, byEpilog: isLeft, isReused: isLeft && i == 1}
			if apart := checkFigures(t, truths, e, mine[i]); apart != "" {
				c.isApart(t, apart)
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

// srunInodes begins a step that writes the inodes of the job's cgroup on each node to the directory of the truth. A
// cgroup that is removed and made again has another inode. The arguments that follow are the command of its tasks.
func srunInodes(s *site) string {
	return `srun bash -c 'stat -c %i /sys/fs/cgroup/{cpuacct,memory}/slurm_$SLURMD_NODENAME/uid_*/job_$SLURM_JOB_ID \
    /sys/fs/cgroup/system.slice/${SLURMD_NODENAME}_slurmstepd.scope/job_$SLURM_JOB_ID >` + s.path("truth") + `/inodes-$SLURMD_NODENAME 2>/dev/null; exec "$@"' bash env RT_TRUTH=` + s.path("truth") + " "
}

// inodes returns what a task of srunInodes has written: nothing if the cgroup is named by a SLUID.
func inodes(t *testing.T, s *site, node string) []string {
	t.Helper()
	text, err := os.ReadFile(s.path("truth", "inodes-"+node))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// sharesInode reports whether two attempts of a job have used one directory.
func sharesInode(a, b []string) bool {
	return slices.ContainsFunc(a, func(inode string) bool { return slices.Contains(b, inode) })
}

// leaveBehind makes a directory in each cgroup of a job, so that Slurm cannot remove the cgroup. It
// returns the directories; none if the cgroup is named by a SLUID, which each attempt has of its own.
func (c *cluster) leaveBehind(t *testing.T, node string, id int64) (left []string) {
	t.Helper()
	pattern := "/sys/fs/cgroup/*/slurm_%s/uid_*/job_%d"
	if hasV2() {
		pattern = "/sys/fs/cgroup/system.slice/%s_slurmstepd.scope/job_%d"
	}
	dirs, err := filepath.Glob(fmt.Sprintf(pattern, node, id))
	isMissing := len(dirs) == 0 && !c.bySLUID
	if err != nil || isMissing {
		t.Fatalf("job %d has no cgroup on %s: %v", id, node, err)
	}
	for _, dir := range dirs {
		err := os.Mkdir(filepath.Join(dir, "left"), 0o755)
		if errors.Is(err, fs.ErrExist) { // two controllers have one hierarchy
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, filepath.Join(dir, "left"))
	}
	return left
}

// removeAll removes the directories of leaveBehind and of the job. On a slow node a slurmstepd of the job may still
// be ending, or Slurm has left more directories behind.
func removeAll(t *testing.T, left []string) {
	t.Helper()
	for _, dir := range left {
		until(t, filepath.Dir(dir)+" to be removed", func() bool { return removeCgroup(filepath.Dir(dir)) })
	}
}

// removeCgroup removes a cgroup and its children, and reports whether it is gone.
func removeCgroup(dir string) bool {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if f.IsDir() {
			removeCgroup(filepath.Join(dir, f.Name()))
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// requeue requeues a running job, starts it again three seconds after its Epilogs have ended, and waits until it runs
// again. Otherwise the job would wait in the queue for two minutes. Slurm 22.05 runs no Prolog for the second attempt
// if slurmd has handled any credential in the two seconds before. It then keeps the revoked credential of the first
// attempt. So no other job may start on the node meanwhile.
func (c *cluster) requeue(t *testing.T, id int64) {
	t.Helper()
	c.root(t, "scontrol", "requeue", fmt.Sprint(id))
	until(t, "the job to be in the queue again", func() bool { return c.jobs(t, id)[id]["JobState"] == "PENDING" })
	c.root(t, "scontrol", "update", "JobId="+fmt.Sprint(id), "StartTime=now+3")
	until(t, "the job to run again", func() bool {
		state := c.jobs(t, id)[id]["JobState"]
		return state == "RUNNING" || ended[state]
	})
}

// runSuspend suspends and resumes a job: its wall clock continues, its CPU time does not.
func runSuspend(t *testing.T, c *cluster, s *site, node string) {
	if !c.oneByOne {
		t.Parallel()
	}
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
	until(t, "the suspended time", func() bool {
		return query(t, path, "SELECT max(job_suspended_us) > 0 FROM snapshot") == "1"
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
		c.isApart(t, apart)
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
	c.slurmd(t, "kill", c.nodes[0])
	before := count(path)
	until(t, "readings without a slurmd", func() bool { return count(path) >= before+3 })
	c.slurmd(t, "start", c.nodes[0])
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	settle(t, s.path("spool"), id)
	r := onlyRun(t, s, id, c.nodes[0])
	checkHeld(t, c, s, r, false)
}

// checkHeld checks the run of a heldJob on the first node: it has ended, its figures agree with the
// job, and it has no gap.
func checkHeld(t *testing.T, c *cluster, s *site, r spooled, byEpilog bool) {
	t.Helper()
	isUnknown := r.Outcome == "unknown" && !c.knowsExit
	isEnd := r.Outcome == "finished" || isUnknown
	if r.State != "ended" || !isEnd {
		t.Errorf("%s is %s, %s", r.path, r.State, r.Outcome)
	}
	e := expected{jobID: r.JobID, node: c.nodes[0], truth: r.JobID, byEpilog: byEpilog}
	if apart := checkFigures(t, s, e, r); apart != "" {
		c.isApart(t, apart)
	}
	gaps := query(t, r.path, "SELECT group_concat(name || ': ' || detail, '; ') FROM event WHERE kind = 'gap'")
	if isSlow := c.oneByOne && !strings.Contains(gaps, "suspend"); gaps != "" && !isSlow { // its host runs other work
		t.Errorf("%s has gaps: %s", r.path, gaps)
	}
}

// isApart reports a run with more CPU time than its processes report. A virtual machine charges
// work of its host, see cluster.tries.
func (c *cluster) isApart(t *testing.T, apart string) {
	t.Helper()
	if c.tries > 0 {
		t.Log(apart)
		return
	}
	t.Error(apart)
}

// runSlurmdRestarts makes Slurm read its configuration, restarts a job's slurmd, and replaces the programs of slurmd
// as an upgrade does, while the job runs.
func runSlurmdRestarts(t *testing.T, c *cluster, s *site) {
	node, release := c.nodes[0], s.path("out", "release-restarts")
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "-w", node, "-J", "restarts")
	path := c.waitForReadings(t, s, id, 3)
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"scontrol reconfigure", func() { c.root(t, "scontrol", "reconfigure") }},
		{"a restart of slurmd", func() { c.slurmd(t, "stop", node); c.slurmd(t, "start", node) }},
		{"an upgrade of slurmd", func() {
			if c.replace != nil {
				c.slurmd(t, "stop", node)
				c.replace(t)
				c.slurmd(t, "start", node)
			}
		}},
	} {
		step.do()
		before := count(path)
		until(t, "readings after "+step.what, func() bool { return count(path) >= before+2 })
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" || j["Restarts"] != "0" {
		t.Errorf("the job ended %s after %s restarts", j["JobState"], j["Restarts"])
	}
	settle(t, s.path("spool"), id)
	checkHeld(t, c, s, onlyRun(t, s, id, node), false)
	if c.replace != nil { // a job that the new programs start
		plainJob(t, c, s)
	}
}

// runEpilogLate ends a job while its slurmd is dead. The tracker exits after its grace time, and the Epilog after
// slurmd's restart has nothing to do.
func runEpilogLate(t *testing.T, c *cluster, s *site) {
	s.configure(map[string]string{"tracker.grace": `"4s"`}) // no other job needs its Epilog that soon
	defer s.configure(nil)
	release := s.path("out", "release-late")
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "-w", c.nodes[0], "-J", "late")
	path := c.waitForReadings(t, s, id, 3)
	c.slurmd(t, "kill", c.nodes[0])
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "the job's processes to end", func() bool { return s.truthOf(t, id, c.nodes[0]).reports == 1 })
	// slurmd ends the extern step after the batch step. Both at once would remove the job's cgroup within
	// milliseconds of its last process.
	until(t, "the end of the batch step in the record", func() bool {
		return query(t, path, "SELECT count(*) FROM step_reading WHERE step = 'batch' AND task IS NULL AND ended = 1") == "1"
	})
	endExtern(t, c.nodes[0], id)
	until(t, "the tracker to end by itself", func() bool { return !exists(path + "-wal") })
	r := readRun(t, path)
	if r.State != "ended" {
		t.Errorf("%s is %s", path, r.State)
	}
	if events := query(t, path, "SELECT count(*) FROM event WHERE name = 'epilog' AND status = 'absent'"); events != "1" {
		t.Errorf("%s has %s events for the missing Epilog, want 1", path, events)
	}
	c.slurmd(t, "start", c.nodes[0])
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s", j["JobState"])
	}
	if apart := checkFigures(t, s, expected{jobID: id, node: c.nodes[0], truth: id}, onlyRun(t, s, id, c.nodes[0])); apart != "" {
		c.isApart(t, apart)
	}
	until(t, "the late Epilog to remove its state", func() bool {
		left, err := filepath.Glob(s.path("state", fmt.Sprintf("%d@*", id)))
		return err == nil && len(left) == 0
	})
}

// endExtern ends the extern step of a job, which survives its slurmd.
func endExtern(t *testing.T, node string, id int64) {
	t.Helper()
	pattern := fmt.Sprintf("/sys/fs/cgroup/freezer/slurm_%s/uid_*/job_%d/step_extern/cgroup.procs", node, id)
	if hasV2() {
		pattern = fmt.Sprintf("/sys/fs/cgroup/system.slice/%s_slurmstepd.scope/*/step_extern/user/*/cgroup.procs", node)
	}
	procs, err := filepath.Glob(pattern)
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

// waitForReadings waits until the given number of snapshots of a job on the first node is committed and the job has
// used CPU time. It returns the run's file.
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

// possible compares the rates of a run with what this machine can do. The view has no rate where a counter decreased,
// so the counters are checked as well. A reading is not one instant. If its tracker waits in the middle, the job's
// work is in one interval and the time in the next. The limit is several times the possible.
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

// labSlurmd stops or starts one of the lab's slurmds.
func labSlurmd(t *testing.T, verb, node string) {
	t.Helper()
	args := map[string][]string{"stop": {"stop-slurmd", node}, "kill": {"stop-slurmd", node, "--kill"}, "start": {"start-slurmd", node}}[verb]
	cmd := exec.Command("../contrib/lab/slurm-lab", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // its children outlive it
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("slurm-lab %v: %v\n%s", args, err, out)
	}
}
