//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDoctor runs the doctor on the nodes of a real Slurm on this host.
func TestDoctor(t *testing.T) {
	s := newSite(t, workDir(t))
	runDoctor(t, lab(t, s), s)
}

// TestDoctorV2 runs it in a machine that has only cgroup v2, with the Slurm of the Debian suite in CG2_SUITE.
func TestDoctorV2(t *testing.T) {
	if os.Getenv(guestVar) != "" {
		c, s := guest(t)
		t.Run("doctor", func(t *testing.T) { runDoctor(t, c, s) })
		return
	}
	share := shareWithGuest(t, newSite(t, workDir(t)))
	out, err := inMachine(cmp.Or(os.Getenv("CG2_SUITE"), versions[0].suite), "slurm-run", share, "./e2e.test", "-test.run", "^TestDoctorV2$", "-test.v", "-test.timeout", "25m").CombinedOutput()
	t.Logf("%s", out)
	replay(t, out)
	if err != nil {
		t.Fatalf("cg2-vm: %v", err)
	}
}

// finding is a check of rt-spool doctor --json.
type finding struct {
	Name, Status, Finding, Meaning, Fix string
}

// examine runs the doctor as root and returns what it found and its exit status.
func (c *cluster) examine(t *testing.T, s *site, args ...string) ([]finding, int) {
	t.Helper()
	argv := slices.Concat(c.asRoot, []string{s.path("bin", "rt-spool"), "--config", s.config(), "doctor", "--role", "node", "--json"}, args)
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.Output()
	var found []finding
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil {
		t.Fatalf("doctor: %v %v\n%s", jsonErr, err, out)
	}
	return found, cmd.ProcessState.ExitCode()
}

// ofMachine are the checks that a machine of the tests cannot pass. Its kernel is without PSI or the controller
// cpuset, or the test's directory is in memory or on a small disk.
var ofMachine = []string{"kernel.psi", "slurm.constraincores", "spool.filesystem", "spool.room", "kernel.memory_peak"}

// runDoctor runs the doctor on a sound node and on nodes that are broken in a way that only a real Slurm shows.
// It needs the only installation of the site.
func runDoctor(t *testing.T, c *cluster, s *site) {
	state, err := os.MkdirTemp("/dev/shm", "rt-state-") // a tmpfs, which the doctor wants
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	command(t, "chmod", "755", state)
	serve(t, s, s.path("spool"), "sentinel.allow_http", "true", "tracker.host_cache", fmt.Sprintf("%q", s.path("host.json")), "tracker.state_dir", fmt.Sprintf("%q", state))
	command(t, "chown", "rt:", s.path("token"))
	t.Run("sound", func(t *testing.T) { soundNode(t, c, s) })
	for _, b := range brokenNodes(t, c, s) {
		t.Run(b.name, func(t *testing.T) {
			repair := b.broken(t)
			found, status := c.examine(t, s, b.args...)
			repair()
			isFound := slices.ContainsFunc(found, func(f finding) bool {
				return f.Name == b.check && f.Status == b.status && strings.Contains(f.Finding, b.text)
			})
			if want := map[string]int{"warning": 1, "failure": 2}[b.status]; !isFound || status < want {
				t.Errorf("no %s of %s with %q, exit status %d:\n%+v", b.status, b.check, b.text, status, found)
			}
		})
	}
	t.Run("sound-again", func(t *testing.T) {
		until(t, "a node without a failure", func() bool { _, status := c.examine(t, s); return status < 2 })
		c.healthy(t)
	})
}

func soundNode(t *testing.T, c *cluster, s *site) {
	if _, status := s.rtSpool(t, "host"); status != 0 || !exists(s.path("host.json")) {
		t.Fatalf("rt-spool host: status %d", status)
	}
	if _, status := s.rtSpool(t, "drain"); status != 0 {
		t.Fatalf("rt-spool drain: status %d", status)
	}
	found, status := c.examine(t, s, "--try")
	for _, f := range found {
		switch {
		case f.Status == "ok":
			t.Logf("%s: %s", f.Name, f.Finding)
		case f.Status == "warning" && slices.Contains(ofMachine, f.Name):
			t.Logf("of this machine: %+v", f)
		default:
			t.Errorf("%+v", f)
		}
	}
	if len(found) < 40 || status > 1 {
		t.Errorf("%d checks, exit status %d", len(found), status)
	}
	c.healthy(t)

	// A user who is not root gets a result too.
	argv := slices.Concat(c.asUser, []string{s.path("bin", "rt-spool"), "--config", s.config(), "doctor", "--role", "node", "--json"})
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	var ofUser []finding
	if json.Unmarshal(out, &ofUser) != nil || len(ofUser) < 30 {
		t.Errorf("as %s: %v\n%s", c.user, err, out)
	}
}

// brokenNode is a way to break a node. broken returns the function that repairs it.
type brokenNode struct {
	name   string
	broken func(t *testing.T) (repair func())
	args   []string

	check, status, text string
}

func brokenNodes(t *testing.T, c *cluster, s *site) []brokenNode {
	touch := func(t *testing.T) func() {
		file := s.path("disabled")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return func() { os.Remove(file) }
	}
	conf := regexp.MustCompile(`SLURM_CONF\s*= (\S+)`).FindStringSubmatch(c.root(t, "scontrol", "show", "config"))[1]
	cgroups := filepath.Join(filepath.Dir(conf), "cgroup.conf")
	other := s.path("other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return []brokenNode{
		{"drained", func(t *testing.T) func() {
			c.root(t, "scontrol", "update", "nodename="+c.nodes[0], "state=drain", "reason=tested")
			return func() { c.root(t, "scontrol", "update", "nodename="+c.nodes[0], "state=resume") }
		}, nil, "slurm.node", "failure", "reason: tested"},
		{"no-prolog", c.edited(conf, `(?mi)^Prolog=.*$`, ""), nil, "slurm.prolog", "failure", "Slurm has no Prolog"},
		{"other-epilog", c.edited(conf, `(?mi)^Epilog=.*$`, "Epilog="+other), nil, "slurm.epilog", "warning", "no call of rt-epilog"},
		{"timeout", c.edited(conf, `\z`, "\nPrologEpilogTimeout=3\n"), nil, "slurm.prologtimeout", "failure", "=3"},
		{"epilog-timeout", c.edited(conf, `\z`, "\nPrologEpilogTimeout=3\n"), nil, "slurm.epilogtimeout", "failure", "=3"},
		{"flags", c.edited(conf, `(?mi)^PrologFlags=.*$`, "PrologFlags=Alloc"), nil, "slurm.prologflags", "warning", "no Contain"},
		{"memory", c.edited(cgroups, `(?mi)^ConstrainRAMSpace=yes`, "ConstrainRAMSpace=no"), nil, "slurm.constrainramspace", "warning", "ConstrainRAMSpace=no"},
		{"switch", touch, nil, "rt.kill_switch", "warning", "exists"},
		{"switch-try", touch, []string{"--try"}, "try.run", "failure", "the job has no file"},
	}
}

// edited returns a function that changes a configuration of Slurm, which all daemons read again.
func (c *cluster) edited(file, pattern, replacement string) func(t *testing.T) func() {
	return func(t *testing.T) func() {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := regexp.MustCompile(pattern).ReplaceAllString(string(text), replacement)
		if changed == string(text) {
			t.Fatalf("%s has no %s:\n%s", file, pattern, text)
		}
		write := func(text string) { // at once: a slurmd may still read it for the reconfiguration before
			err := os.WriteFile(file+".new", []byte(text), 0o644)
			if err == nil {
				err = os.Rename(file+".new", file)
			}
			if err != nil {
				t.Fatal(err)
			}
			c.root(t, "scontrol", "reconfigure")
		}
		write(changed)
		return func() { write(string(text)) }
	}
}
