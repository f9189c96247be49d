//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/e2e/iotest"
)

// programs are what a site installs.
var programs = []string{"rt-prolog", "rt-epilog", "rt-tracker", "rt-spool", "resource-tracker", "rt-site"}

// site is an installation for the tests: programs, configuration, spool and log below one
// directory that every user can enter.
type site struct {
	t    *testing.T
	dir  string
	base map[string]string // keys of each configuration, see configure
	// byRank: Slurm names the directory of a task by its number in the step, not on the node (cgroup v2 in 24.11, not
	// in 22.05).
	byRank bool
}

// newSite copies the programs and compiles the workload. RT_BIN names the
// directory of the programs; without it they are built.
func newSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{t: t, dir: dir}
	for _, d := range []string{"bin", "spool", "state", "truth", "out"} {
		if err := os.MkdirAll(s.path(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"truth", "out"} { // jobs write to these
		if err := os.Chmod(s.path(d), 0o1777); err != nil {
			t.Fatal(err)
		}
	}
	from := os.Getenv("RT_BIN")
	if from == "" {
		from = s.path("bin")
		command(t, "make", "-C", "..", "build", "BIN="+from)
	} else {
		for _, p := range programs {
			copyFile(t, filepath.Join(from, p), s.path("bin", p))
		}
	}
	if built := filepath.Join(from, "workload"); exists(built) {
		copyFile(t, built, s.path("bin", "workload"))
	} else {
		command(t, "gcc", "-O2", "-static", "-o", s.path("bin", "workload"), "workload/workload.c")
	}
	s.script("prolog", "rt-prolog")
	s.script("epilog", "rt-epilog")
	makeUser(t)
	s.own("spool")
	if err := os.WriteFile(s.log(), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.log(), 0o666); err != nil { // the tracker writes as the user rt
		t.Fatal(err)
	}
	s.configure(nil)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(s.log()) // for the reader of a failure
			files, _ := exec.Command("ls", "-lanR", s.path("spool"), s.path("state")).CombinedOutput()
			t.Logf("the hooks and trackers have logged:\n%s\nand there are the files:\n%s", log, files)
		}
	})
	return s
}

// makeUser makes the user of the trackers, if it is missing. It has a lock, as in contrib/lab/slurm-lab. A second
// useradd of the name at the same time succeeds too and replaces the ids, and then the first test's spool has another
// owner.
func makeUser(t *testing.T) {
	t.Helper()
	const add = "useradd --system --user-group --no-create-home --shell /usr/sbin/nologin" +
		" --comment 'made by the tests of rt' rt" // contrib/lab/clean-system looks for the comment
	command(t, "flock", "/etc", "sh", "-c", "id -u rt >/dev/null 2>&1 || "+add)
}

func (s *site) path(elem ...string) string { return filepath.Join(append([]string{s.dir}, elem...)...) }
func (s *site) workload() string           { return s.path("bin", "workload") }
func (s *site) log() string                { return s.path("rt.log") }
func (s *site) config() string             { return s.path("rt.toml") }

// script writes what slurm.conf names as Prolog or Epilog.
func (s *site) script(name, program string) {
	dir := "../contrib/slurm/hooks"
	if os.Getenv(guestVar) != "" {
		dir = "hooks" // see TestCgroupV2
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("/usr/local/libexec/rt/"+program), []byte(s.path("bin", program)+" --config "+s.config()))
	if err := os.WriteFile(s.path(name), text, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// own makes the user rt, the owner of the spool, the owner of directories.
func (s *site) own(dirs ...string) {
	for _, d := range dirs {
		command(s.t, "chown", "rt:rt", s.path(d))
	}
}

// configure writes rt.toml with short intervals and all paths below the site. The given "section.key" = TOML value
// replace the site's values and the defaults.
func (s *site) configure(over map[string]string) {
	quoted := func(p ...string) string { return fmt.Sprintf("%q", s.path(p...)) }
	keys := map[string]string{
		"spool.dir": quoted("spool"), "spool.commit_interval": `"1s"`,
		"tracker.path": quoted("bin", "rt-tracker"), "tracker.state_dir": quoted("state"),
		"tracker.interval": `"1s"`, "tracker.first_interval": `"500ms"`,
		// The maximum: a hook that gives up logs that, and no test measures it.
		"hooks.ready_timeout": `"30s"`, "hooks.stop_timeout": `"1m"`,
		"hooks.disable_file": quoted("disabled"),
		"log.target":         quoted("rt.log"),
	}
	for _, more := range []map[string]string{s.base, over} {
		for k, v := range more {
			keys[k] = v
		}
	}
	var b bytes.Buffer
	for _, section := range []string{"spool", "tracker", "hooks", "log", "sentinel", "drain", "serve", "perf"} {
		fmt.Fprintf(&b, "[%s]\n", section)
		for k, v := range keys {
			if key, ok := strings.CutPrefix(k, section+"."); ok {
				fmt.Fprintf(&b, "%s = %s\n", key, v)
			}
		}
	}
	s.writeConfig(b.String())
}

// writeConfig replaces rt.toml atomically: a hook never reads a part of a file.
func (s *site) writeConfig(text string) {
	temp := s.config() + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temp, s.config()); err != nil {
		s.t.Fatal(err)
	}
}

// rtSpool runs rt-spool and returns its standard output and its status.
func (s *site) rtSpool(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(s.path("bin", "rt-spool"), append([]string{"--config", s.config()}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("rt-spool: %v", err)
	}
	if errs.Len() > 0 {
		t.Logf("rt-spool %s: %s", strings.Join(args, " "), errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// logLines returns what hooks and trackers have logged.
func (s *site) logLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(s.log())
	if err != nil {
		t.Fatal(err)
	}
	return lines(string(text))
}

func lines(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// command runs a program that must succeed and returns what it printed.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// patience limits the wait for an event. No test measures how soon an event comes, and a
// busy machine may take long.
const patience = 4 * time.Minute

// until waits for a condition, and fails the test if it never becomes true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// workDir makes a directory that every user can enter, and removes it at the end.
func workDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rt-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	openDir(t, dir)
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("RT_E2E_KEEP") != "" {
			t.Logf("kept %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// diskDir is workDir on a file system that counts what a job reads and writes.
func diskDir(t *testing.T) string {
	t.Helper()
	dir := iotest.Dir(t, "/tmp", "/var/tmp")
	openDir(t, dir)
	return dir
}

// openDir lets every user enter a directory.
func openDir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}
