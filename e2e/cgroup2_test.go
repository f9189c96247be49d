//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// guestVar marks the copy of this test that runs inside the machine.
const guestVar = "RT_E2E_GUEST"

// TestCgroupV2 runs the same jobs on a Slurm of two nodes in a machine that has only cgroup
// v2. A copy of the test runs there; the spool is copied back and drained here, as on a
// site where the nodes have no network.
func TestCgroupV2(t *testing.T) {
	if os.Getenv(guestVar) != "" {
		inGuest(t)
		return
	}
	s := newSite(t, workDir(t))
	share := shareWithGuest(t, s)
	cmd := inMachine("slurm-run", share, "./e2e.test", "-test.run", "^TestCgroupV2$", "-test.v", "-test.timeout", "55m")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	replay(t, out)
	if err != nil {
		t.Fatalf("cg2-vm: %v", err)
	}
	t.Run("drain", func(t *testing.T) { runDrain(t, s, filepath.Join(share, "spool")) })
}

// shareWithGuest makes the directory that the machine sees: this test, the programs,
// and the hooks.
func shareWithGuest(t *testing.T, s *site) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	share := s.path("share")
	for _, d := range []string{"bin", "spool", "hooks"} {
		if err := os.MkdirAll(filepath.Join(share, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, self, filepath.Join(share, "e2e.test"))
	for _, p := range append([]string{"workload"}, programs...) {
		copyFile(t, s.path("bin", p), filepath.Join(share, "bin", p))
	}
	for _, hook := range []string{"prolog", "epilog"} {
		copyFile(t, filepath.Join("../contrib/slurm/hooks", hook), filepath.Join(share, "hooks", hook))
		text := "#!/bin/sh\nexec /opt/rt/" + hook + "\n"
		if err := os.WriteFile(filepath.Join(share, hook), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return share
}

var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): Test[^/\s]+/(\S+/\S+)`)

// replay reports the results of the tests in the machine as tests of this run.
func replay(t *testing.T, output []byte) {
	results := result.FindAllSubmatch(output, -1)
	if len(results) == 0 {
		t.Errorf("no test ran inside the machine")
	}
	for _, m := range results {
		t.Run(string(m[2]), func(t *testing.T) {
			if !bytes.Equal(m[1], []byte("PASS")) {
				t.Errorf("%s failed in the machine, see its output", m[1])
			}
		})
	}
}

// guest is the installation in the machine: Slurm is up, and its hooks use /opt/rt.
func guest(t *testing.T) (*cluster, *site) {
	t.Helper()
	s := newSite(t, "/opt/rt")
	// The machine is slow, and charges a tracker for time in which the host's CPU did other
	// work.
	s.configure(map[string]string{"tracker.first_interval": `"1s"`, "tracker.interval": `"2s"`, "tracker.budget_cpu": "20.0"})
	return &cluster{
		name: "cg2", partition: "main", user: "tester", nodes: []string{"n1", "n2"},
		asUser: []string{"setpriv", "--reuid=tester", "--regid=tester", "--init-groups", "--"}, oneByOne: true, tries: 5,
	}, s
}

// inGuest is the test as it runs in the machine.
func inGuest(t *testing.T) {
	c, s := guest(t)
	t.Run("matrix", func(t *testing.T) { runMatrix(t, c, s) })
	files, err := filepath.Glob(s.path("spool", "*.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		copyFile(t, f, filepath.Join("/mnt/share/spool", filepath.Base(f)))
	}
	t.Run("bytes", func(t *testing.T) { runBytes(t, c, s) })
	t.Run("lifecycle", func(t *testing.T) { // replay reports the subtests of these
		t.Run("clock", func(t *testing.T) { runClock(t, c, s) })
	})
}
