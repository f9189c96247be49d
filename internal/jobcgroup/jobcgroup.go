// Package jobcgroup introduces Slurm's knowledge of where a job's cgroup may be to
// the watcher of cgroups, which knows nothing of Slurm.
package jobcgroup

import (
	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/slurm"
)

// Candidates are all places where Slurm may put the run's cgroup, in the order of
// slurm.Candidates.
func Candidates(run *rt.Run, mounts slurm.Mounts) []cgroup.Candidate {
	var out []cgroup.Candidate
	for _, c := range slurm.Candidates(run, mounts) {
		out = append(out, Candidate(c))
	}
	return out
}

// Candidate is one place in the watcher's terms: version 2 has one directory,
// version 1 one for each controller.
func Candidate(c slurm.Candidate) cgroup.Candidate {
	dirs := c.Dirs
	if c.Version == 2 {
		dirs = map[string]string{cgroup.Unified: c.Dir}
	}
	return cgroup.Candidate{Layout: c.Layout, Version: c.Version, Dirs: dirs}
}
