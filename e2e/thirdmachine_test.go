//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestThirdMachine lets two nodes with a spool each deliver the jobs of TestReports to rt-site. It compares what the
// nodes show with what another user sees who has only the address of the site.
func TestThirdMachine(t *testing.T) {
	s := newSite(t, workDir(t))
	c := reportLab(t, s, "serve.munge", fmt.Sprintf("%q", s.path("lab", "munge.d", "socket")))
	m := machinesOf(t, s, c)
	cases := reportCases(c.nodes)
	slices.Reverse(cases) // no other job may run when one is requeued
	all := submitCases(t, s, c, cases)
	for _, node := range c.nodes {
		m.drain(node)
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			job := all[k.name][0]
			for _, form := range []string{"--format=text", "--explain", "--verbose", "--format=json", "--json", "--format=markdown", "--format=oneline", "--html=-"} {
				want := m.show(t, "both", nil, "report", form, job)
				for _, machine := range m.with(c.nodes, job) {
					if got := m.show(t, machine, nil, "report", form, job); got != want {
						t.Errorf("report %s on %s:\n%s\nwith both spools:\n%s", form, machine, got, want)
					}
				}
				if got := m.show(t, "third", m.as(c.user), "report", form, job); got != want {
					t.Errorf("report %s on the third machine:\n%s\nwith both spools:\n%s", form, got, want)
				}
			}
		})
	}
	for _, args := range [][]string{{"jobs"}, {"jobs", "--csv"}, {"jobs", "--json", "-D"}, {"jobs", "--since", "1d", "--user", c.user, "--wide"}} {
		want := m.show(t, "both", nil, args...)
		if got := m.show(t, "third", m.as(c.user), args...); got != want || strings.Count(got, "\n") < len(cases) {
			t.Errorf("%q on the third machine:\n%s\nwith both spools:\n%s", args, got, want)
		}
	}
	// Another user may see no figures of this one's job. Slurm still shows that the job has ended.
	cmd := m.command("third", m.as("nobody"), "report", all["short"][0])
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("job %s of %s has ended (finished) on ", all["short"][0], c.user); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("another user: %v, %s", err, out)
	}
	c.healthy(t)
}

// machines are the nodes and a third machine, each a configuration on this host.
type machines struct {
	t *testing.T
	s *site
}

// machinesOf gives each node a spool of its own, by its name. "both" has the spools of both nodes after
// the drain, and "third" has none.
func machinesOf(t *testing.T, s *site, c *cluster) *machines {
	t.Helper()
	text, err := os.ReadFile(s.config())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(s.path(name+".toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	url := ""
	for _, line := range lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "endpoint = "); ok {
			url = v
		}
	}
	for _, name := range append([]string{"both"}, c.nodes...) {
		of := strings.ReplaceAll(string(text), fmt.Sprintf("%q", s.path("spool")), fmt.Sprintf("%q", s.path("spool-"+name)))
		of = strings.ReplaceAll(of, fmt.Sprintf("%q", s.path("state")), fmt.Sprintf("%q", s.path("state-"+name)))
		write(name, of)
		for _, dir := range []string{"spool-" + name, "state-" + name} {
			if err := os.Mkdir(s.path(dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		s.own("spool-" + name)
	}
	for _, hook := range []string{"prolog", "epilog"} {
		text, err := os.ReadFile(s.path(hook))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte(s.config()), []byte(s.dir+"/$SLURMD_NODENAME.toml"))
		if err := os.WriteFile(s.path(hook), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("third", fmt.Sprintf("[spool]\ndir = %q\n[site]\nurl = %s\n", s.path("no-spool"), url))
	if err := os.MkdirAll(s.path("third", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	munge := "#!/bin/sh\nexec /usr/bin/munge --socket=" + s.path("lab", "munge.d", "socket") + " \"$@\"\n"
	if err := os.WriteFile(s.path("third", "bin", "munge"), []byte(munge), 0o755); err != nil {
		t.Fatal(err)
	}
	return &machines{t, s}
}

// drain delivers the runs of a node when accounting has confirmed them, and copies them to "both".
func (m *machines) drain(node string) {
	t := m.t
	t.Helper()
	spool := m.s.path("spool-" + node)
	settle(t, spool)
	until(t, "sacct to confirm every run of "+node, func() bool {
		m.show(t, node, nil, "drain")
		return !slices.ContainsFunc(runs(t, spool), func(r spooled) bool { return r.Source != "sacct" })
	})
	files, err := filepath.Glob(filepath.Join(spool, "*.db"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has the files %q, %v", spool, files, err)
	}
	for _, f := range files {
		copyFile(t, f, m.s.path("spool-both", filepath.Base(f)))
	}
}

// with returns the nodes that have all runs of a job.
func (m *machines) with(nodes []string, job string) (list []string) {
	count := func(machine string) int {
		return strings.Count(m.show(m.t, machine, nil, "ls", "--json", job), `"path"`)
	}
	for _, n := range nodes {
		cmd := m.command(n, nil, "ls", job)
		if cmd.Run() == nil && count(n) == count("both") {
			list = append(list, n)
		}
	}
	return list
}

// as returns the prefix of a command of a user.
func (m *machines) as(name string) []string {
	u, err := user.Lookup(name)
	if err != nil {
		m.t.Fatal(err)
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}
}

func (m *machines) command(machine string, as []string, args ...string) *exec.Cmd {
	argv := append(slices.Clone(as), append([]string{m.s.path("bin", "rt-spool"), "--config", m.s.path(machine + ".toml")}, args...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	home := "/nonexistent"
	if as == nil { // root could create it
		home = m.s.dir
	}
	cmd.Env = append(cmd.Environ(), "HOME="+home, "PATH="+m.s.path("third", "bin")+":"+os.Getenv("PATH"))
	return cmd
}

// show runs rt-spool with the configuration of a machine, which must succeed without a message.
func (m *machines) show(t *testing.T, machine string, as []string, args ...string) string {
	t.Helper()
	cmd := m.command(machine, as, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	isQuiet := errs.Len() == 0 || args[0] == "drain"
	if err != nil || !isQuiet {
		t.Fatalf("rt-spool %v on %s: %v\n%s%s", args, machine, err, out, errs.String())
	}
	return string(out)
}
