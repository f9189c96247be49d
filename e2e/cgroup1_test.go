//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestCgroupV1 runs the jobs on a Slurm of two nodes on this host with cgroup v1, delivers
// them, and then injects every fault that a node can have.
func TestCgroupV1(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	printVersions(t, versions[0], "v1")
	t.Run("matrix", func(t *testing.T) { runMatrix(t, c, s, matrix(c.nodes)) })
	t.Run("sqlite3", func(t *testing.T) { readWithSQLite(t, s) })
	t.Run("drain", func(t *testing.T) { runDrain(t, s, s.path("spool")) })
	t.Run("faults", func(t *testing.T) { runFaults(t, c, s, faults) })
	t.Run("killed", func(t *testing.T) { runKilled(t, c, s) })
}

// readWithSQLite reads the view sample with the plain sqlite3 program.
func readWithSQLite(t *testing.T, s *site) {
	for _, run := range runs(t, s.path("spool")) {
		out := command(t, "sqlite3", "-header", run.path, "select * from sample limit 3")
		got := lines(out)
		if len(got) < 3 || !strings.Contains(got[0], "job_cores") {
			t.Errorf("sqlite3 prints for %s:\n%s", run.path, out)
		}
	}
}
