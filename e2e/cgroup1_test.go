//go:build e2e

package e2e

import (
	"testing"
)

// TestCgroupV1 runs the jobs on a Slurm of two nodes with cgroup v1.
func TestCgroupV1(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	t.Run("matrix", func(t *testing.T) { runMatrix(t, c, s) })
}
