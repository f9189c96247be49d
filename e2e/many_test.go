//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// manyJobs is the number of jobs on one node, budgetPct the CPU budget of each tracker in
// percent of a core, the default of tracker.budget_cpu.
const (
	manyJobs  = 64
	budgetPct = 0.5
)

// TestMany runs 64 jobs on one node at the same time, and then a job of a thousand processes. Every run is complete,
// and the trackers stay within their budgets.
func TestMany(t *testing.T) {
	s := newSite(t, workDir(t))
	c := labWith(t, s, "--no-dbd", "--conf", "PartitionName=many Nodes=ALL OverSubscribe=FORCE:64 MaxTime=INFINITE DefaultTime=60 State=UP")
	c.partitions = 2
	s.configure(map[string]string{"tracker.interval": `"10s"`, "tracker.first_interval": `"1s"`, "tracker.first_for": `"4s"`})
	t.Run("jobs", func(t *testing.T) { runManyJobs(t, c, s) })
	t.Run("processes", func(t *testing.T) { runManyProcesses(t, c, s) })
	c.healthy(t)
	for _, line := range s.logLines(t) {
		// On a busy machine 64 trackers may not be ready in time: their jobs are tracked like
		// all others.
		if !strings.HasSuffix(line, "it keeps running") {
			t.Errorf("unexpected log line: %s", line)
		}
	}
}

// runManyJobs waits until all jobs run, measures for a while, and ends them.
func runManyJobs(t *testing.T, c *cluster, s *site) {
	release := s.path("out", "release-many")
	script := "#!/bin/bash\necho >" + s.path("out", "began-$SLURM_JOB_ID") + "; until [ -e " + release + " ]; do sleep 1; done\n"
	submit := s.path("out", "submit")
	text := fmt.Sprintf("#!/bin/bash\nfor i in $(seq %d); do sbatch -Q -p many -n1 --mem=20 -w %s -o /dev/null -J many %s || exit; done\n", manyJobs, c.nodes[0], submit+".job")
	for path, text := range map[string]string{submit + ".job": script, submit: text} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(c.asUser[0], append(c.asUser[1:], submit)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "all jobs to run", func() bool {
		began, err := filepath.Glob(s.path("out", "began-*"))
		return err == nil && len(began) == manyJobs
	})
	since := time.Now()
	if n := trackers(t, s); n != manyJobs {
		t.Errorf("%d trackers of %d jobs", n, manyJobs)
	}
	before := trackerTime(t, s)
	until(t, "two readings of each job", func() bool { return time.Since(since) > 21*time.Second })
	cost := (trackerTime(t, s) - before).Seconds() / time.Since(since).Seconds() / manyJobs * 100
	if cost > budgetPct {
		t.Errorf("a tracker uses %.3f %% of a core, its budget is %.2f %%", cost, budgetPct)
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "all jobs to end", func() bool { return c.root(t, "squeue", "-h", "-p", "many") == "" })
	settle(t, s.path("spool"))
	all := runs(t, s.path("spool"))
	if len(all) != manyJobs {
		t.Errorf("%d runs of %d jobs", len(all), manyJobs)
	}
	readings := map[string]bool{}
	for _, r := range all {
		if r.State != "ended" || !r.cpu.Valid || r.firstReason != 1 || r.ending != 1 {
			t.Errorf("%s is %s, with %d snapshots, %d last readings and %d at a stop; the ledger: %s", r.path, r.State, r.snapshots, r.ending, r.stopping,
				query(t, r.path, "SELECT group_concat(kind || ' ' || name || ' ' || status || ' ' || detail, '; ') FROM event"))
		}
		possible(t, r)
		if over := query(t, r.path, "SELECT count(*) FROM event WHERE name = 'budget' AND status = 'over'"); over != "0" {
			t.Errorf("%s was over its budget %s times", r.path, over)
		}
		for _, ticks := range strings.Split(query(t, r.path, fmt.Sprintf(`SELECT group_concat(node_cpu_idle_ticks || '/' || node_cpu_user_ticks)
			FROM snapshot WHERE reason = 0 AND wall_us > %d AND wall_us < %d`, since.UnixMicro(), since.Add(21*time.Second).UnixMicro())), ",") {
			readings[ticks] = true
		}
	}
	t.Logf("a tracker uses %.3f %% of a core; %d readings of the node for %d trackers in 21 s", cost, len(readings), manyJobs)
	if len(readings) > 20 { // without a shared cache: 128
		t.Errorf("%d readings of the node in 21 s, with 10 s between those of each of %d trackers", len(readings), manyJobs)
	}
}

// runManyProcesses starts and ends a thousand processes in one job.
func runManyProcesses(t *testing.T, c *cluster, s *site) {
	release := s.path("out", "release-processes")
	id := c.submit(t, s, "for i in $(seq 1000); do sleep 3600 & done; until [ -e "+release+" ]; do sleep 1; done; kill $(jobs -p)", "-n1", "--mem=1000", "-w", c.nodes[0], "-J", "thousand")
	path := ""
	until(t, "a reading of a thousand processes", func() bool {
		files, err := filepath.Glob(s.path("spool", fmt.Sprintf("job-%d-*.db", id)))
		if err != nil || len(files) != 1 {
			return false
		}
		path = files[0]
		return count(path) > 0 && query(t, path, "SELECT ifnull(max(job_pids), 0) >= 1000 FROM snapshot") == "1"
	})
	since, before := time.Now(), trackerTime(t, s)
	until(t, "another reading", func() bool { return time.Since(since) > 15*time.Second })
	cost := (trackerTime(t, s) - before).Seconds() / time.Since(since).Seconds() * 100
	if cost > 2*budgetPct { // the tracker adjusts once a minute
		t.Errorf("the tracker uses %.3f %% of a core, its budget is %.2f %%", cost, budgetPct)
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.wait(t, id)
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	t.Logf("the tracker uses %.3f %% of a core; its ledger: %s", cost,
		query(t, path, "SELECT group_concat(kind || ' ' || name || ' ' || status || ' ' || detail, '; ') FROM event WHERE kind = 'tracker'"))
	if r.State != "ended" || !r.cpu.Valid {
		t.Errorf("%s is %s", r.path, r.State)
	}
}

// trackers counts the trackers of this site.
func trackers(t *testing.T, s *site) int { return len(trackerPIDs(t, s)) }

// trackerTime is the CPU time that the living trackers of this site have used.
func trackerTime(t *testing.T, s *site) (sum time.Duration) {
	for _, pid := range trackerPIDs(t, s) {
		sum += cpuOf(pid)
	}
	return sum
}

func trackerPIDs(t *testing.T, s *site) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		exe, err := os.Readlink(d + "/exe")
		if err != nil || exe != s.path("bin", "rt-tracker") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
