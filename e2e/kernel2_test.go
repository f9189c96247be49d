//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKernelV2 runs the tests of collect/cgroup that need the controllers of cgroup v2 in a
// machine that has them.
func TestKernelV2(t *testing.T) {
	share := workDir(t)
	command(t, "go", "test", "-c", "-o", filepath.Join(share, "cgroup.test"), "../collect/cgroup")
	out, err := inMachine("run", share, "./cgroup.test", "-test.run", "^TestKernel.*V2$", "-test.v").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("cg2-vm: %v", err)
	}
	if passed, skipped := bytes.Count(out, []byte("--- PASS: Test")), bytes.Count(out, []byte("--- SKIP")); passed < 2 || skipped > 0 {
		t.Errorf("inside the machine %d tests passed and %d were skipped", passed, skipped)
	}
}

// inMachine prepares a command in the virtual machine of contrib/lab/cg2-vm. That machine
// has no steal time: it charges other work of its host to the process that runs. So it gets
// a high priority where that is permitted.
func inMachine(mode, share string, args ...string) *exec.Cmd {
	cmd := exec.Command("nice", append([]string{"-n", "-15", "../contrib/lab/cg2-vm", mode, "--share", share,
		"--env", guestVar + "=1", "--env", "RT_BIN=/mnt/share/bin", "--"}, args...)...)
	cmd.Env = append(cmd.Environ(), "CG2_NODES=2", "CG2_TIMEOUT=3600")
	if os.Getenv("CG2_CACHE") == "" {
		cmd.Env = append(cmd.Env, "CG2_CACHE=/var/cache/cg2-vm")
	}
	return cmd
}
