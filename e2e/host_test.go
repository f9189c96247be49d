//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestHost runs the jobs on a Slurm of two nodes on this host, with its cgroups, and delivers them. Then it injects
// every fault that a node can have; the short form leaves out some of the jobs, and the faults.
func TestHost(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	cgroup := strings.TrimSpace(command(t, slurmLab, "can"))
	v := hostVersion(t)
	c.bySLUID, c.knowsExit, s.byRank = v.bySLUID, v.knowsExit, v.byRank
	printVersions(t, v, cgroup)
	cases := matrix(c.nodes)
	if testing.Short() {
		cases = slices.DeleteFunc(cases, func(k jobCase) bool { return !k.short })
	}
	t.Run("matrix", func(t *testing.T) { runMatrix(t, c, s, cases) })
	t.Run("sqlite3", func(t *testing.T) { readWithSQLite(t, s) })
	t.Run("drain", func(t *testing.T) { runDrain(t, s, s.path("spool")) })
	if testing.Short() {
		return
	}
	t.Run("faults", func(t *testing.T) { runFaults(t, c, s, faults) })
	t.Run("killed", func(t *testing.T) { runKilled(t, c, s) })
}

// hostVersion is what the tests know of the Slurm of this host: the newest of the versions that is not
// newer.
func hostVersion(t *testing.T) version {
	t.Helper()
	found := versions[0]
	for _, v := range versions {
		if v.slurm <= slurmVersion(t) {
			found = v
		}
	}
	found.knowsExit = false // this is the host's kernel, not the suite's
	return found
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
