//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runInJob runs jobs with PrologFlags=RunInJob, with which Slurm starts the hooks in the extern step
// of the job.
func runInJob(t *testing.T, c *cluster, s *site) {
	before, err := os.ReadFile(guestSlurmConf)
	if err != nil {
		t.Fatal(err)
	}
	s.configure(map[string]string{"tracker.grace": `"4s"`}) // see asUser
	defer s.configure(nil)
	setSlurmConf(t, c, strings.Replace(string(before), "PrologFlags=Contain,Alloc", "PrologFlags=Contain,Alloc,RunInJob", 1))
	defer setSlurmConf(t, c, string(before))
	t.Run("tracked", func(t *testing.T) { runTrackedInJob(t, c, s) })
	t.Run("refused", func(t *testing.T) { runRefusedInJob(t, c, s) })
}

// asUser reports whether a line is of an Epilog that Slurm 24.11 has started as the user of the job: its
// slurmstepd sometimes does. The tracker then ends after its grace time, with all readings.
func asUser(t *testing.T, line string) bool {
	t.Helper()
	isIt := strings.Contains(line, "the Epilog runs as user")
	if isIt {
		t.Log(line)
	}
	return isIt
}

// scopeOf is the cgroup of the slurmstepds of a node.
func scopeOf(node string) string {
	return "/sys/fs/cgroup/system.slice/" + node + "_slurmstepd.scope"
}

// runTrackedInJob checks that the tracker is in its own cgroup, that the job's figures are complete, and
// that nothing delays the end of the job.
func runTrackedInJob(t *testing.T, c *cluster, s *site) {
	log, release := watchLog(t, s), s.path("out", "release-in-job")
	t.Cleanup(func() {
		if t.Failed() {
			out, err := exec.Command("sh", "-c", "grep -r . /sys/fs/cgroup/system.slice/*slurmstepd.scope --include=cgroup.procs; ps -ef; tail -n 40 /var/log/slurm/slurmd-n1.log").CombinedOutput()
			t.Logf("%s, %v", out, err)
		}
	})
	id := c.submit(t, s, heldJob(s, release), "-n1", "--mem=60", "-w", c.nodes[0], "-J", "in-job")
	path := c.waitForReadings(t, s, id, 3)
	procs, err := os.ReadFile(filepath.Join(scopeOf(c.nodes[0]), "rt", "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	pids := lines(string(procs))
	if len(pids) != 1 {
		t.Fatalf("the cgroup of the trackers has the processes %q, want one", pids)
	}
	exe, err := os.Readlink(filepath.Join("/proc", pids[0], "exe"))
	if err != nil || exe != s.path("bin", "rt-tracker") {
		t.Errorf("process %s runs %q, %v", pids[0], exe, err)
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job ended %s and printed %s", j["JobState"], s.output(t, id))
	}
	settle(t, s.path("spool"), id)
	checkHeld(t, c, s, onlyRun(t, s, id, c.nodes[0]), true)
	jobDir := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(query(t, path, "SELECT cgroup_path FROM run"), "/sys/fs/cgroup"))
	until(t, "the job's cgroup to go", func() bool { return !exists(jobDir) })
	until(t, "the tracker to go", func() bool { return !exists(filepath.Join("/proc", pids[0])) })
	c.healthy(t)
	for _, line := range log.lines(t) {
		if !asUser(t, line) {
			t.Errorf("unexpected log line: %s", line)
		}
	}
}

// runRefusedInJob makes the kernel refuse the tracker its cgroup: with controllers for its children it
// takes no process. The job runs untracked, with one log line.
func runRefusedInJob(t *testing.T, c *cluster, s *site) {
	control := filepath.Join(scopeOf(c.nodes[0]), "rt", "cgroup.subtree_control")
	set := func(text string) {
		if err := os.WriteFile(control, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set("+memory")
	defer set("-memory")
	log := watchLog(t, s)
	id := plainJob(t, c, s)
	logged := slices.DeleteFunc(log.lines(t), func(line string) bool { return asUser(t, line) })
	if len(logged) != 1 || !strings.Contains(logged[0], fmt.Sprintf("job %d@", id)) || !strings.Contains(logged[0], "take RunInJob out of PrologFlags") {
		t.Errorf("want one line that names job %d and RunInJob: %q", id, logged)
	}
	t.Log(logged)
	if left := runsOf(t, s.path("spool"), id); len(left) != 0 {
		t.Errorf("the job has runs: %s", describe(left))
	}
}
