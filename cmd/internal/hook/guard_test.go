package hook

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Without memory, processes or descriptors the hooks exit 0.
func TestStarved(t *testing.T) {
	dir := buildHooks(t)
	t.Run("guard", func(t *testing.T) { testGuard(t, dir) })
	t.Run("few descriptors", func(t *testing.T) { testFewDescriptors(t, dir) })
}

// testGuard: the scripts in slurm.conf exit 0 even if the programs cannot start.
func testGuard(t *testing.T, dir string) {
	for _, name := range []string{"prolog", "epilog"} {
		text, err := os.ReadFile(filepath.Join("../../../contrib/slurm/hooks", name))
		if err != nil {
			t.Fatal(err)
		}
		script := strings.ReplaceAll(string(text), "/usr/local/libexec/rt/", dir+"/")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []string{"--as=20000000", "--nproc=1", "--data=1000000"} {
			t.Run(name+limit, func(t *testing.T) {
				if err := starved(limit, filepath.Join(dir, name)).Run(); err != nil {
					t.Errorf("%s exits with %v", name, err)
				}
			})
		}
		if limit := "--as=20000000"; starved(limit, filepath.Join(dir, "rt-"+name)).Run() == nil {
			t.Errorf("rt-%s starts with %s: the limit shows nothing", name, limit)
		}
	}
}

// buildHooks builds the programs into a directory that each user can enter.
func buildHooks(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "../../../cmd/rt-prolog", "../../../cmd/rt-epilog")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// testFewDescriptors: the hooks exit 0 with any limit on open files. Root with CAP_SYS_RESOURCE raises
// the limit, and the tracker starts.
func testFewDescriptors(t *testing.T, dir string) {
	config := filepath.Join(dir, "rt.toml")
	text := strings.ReplaceAll("[spool]\nuser = \"root\"\n[tracker]\npath = \"DIR/rt-tracker\"\nstate_dir = \"DIR/state\"\n[hooks]\nready_timeout = \"10s\"\n[log]\ntarget = \"DIR/rt.log\"\n", "DIR", dir)
	tracker := "#!/bin/sh\ncd " + dir + "\nulimit -n >>limits\necho ready >&3\n"
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644), os.WriteFile(filepath.Join(dir, "rt-tracker"), []byte(tracker), 0o755)); err != nil {
		t.Fatal(err)
	}
	users, raises := []bool{false}, mayRaiseLimits(t)
	if os.Getuid() == 0 {
		users = append(users, true)
	}
	for limit := range 17 {
		for _, program := range []string{"rt-prolog", "rt-epilog"} {
			argv := []string{fmt.Sprintf("--nofile=%d:%d", limit, limit), filepath.Join(dir, program), "--config", config}
			for _, asRoot := range users {
				cmd := starved(argv...)
				want := program + ": error: the limit on open files is less than 32 and cannot be raised: nothing was done\n"
				if asRoot {
					cmd.SysProcAttr = nil
				}
				if asRoot && raises {
					want = ""
				}
				if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
					t.Errorf("%s with a limit of %d, as root %v: %v, %s", program, limit, asRoot, err, out)
				}
			}
		}
	}
	if !raises {
		return
	}
	if limits, err := os.ReadFile(filepath.Join(dir, "limits")); err != nil || string(limits) != strings.Repeat("1024\n", 17) {
		t.Errorf("limits of 17 trackers: %q, %v", limits, err)
	}
	// The Prologs have opened the log for what a tracker that crashes prints.
	if log, err := os.ReadFile(filepath.Join(dir, "rt.log")); err != nil || len(log) > 0 {
		t.Errorf("the log: %s, %v", log, err)
	}
}

// mayRaiseLimits reports whether this process may raise hard limits, which takes CAP_SYS_RESOURCE in the
// first user namespace.
func mayRaiseLimits(t *testing.T) bool {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	lower := unix.Rlimit{Cur: min(limit.Cur, limit.Max-1), Max: limit.Max - 1}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &lower, nil); err != nil {
		t.Fatal(err)
	}
	return unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil) == nil
}

// starved runs a program with a limit, as another user if possible: the limit of processes
// does not apply to root.
func starved(args ...string) *exec.Cmd {
	c := exec.Command("prlimit", args...)
	c.Env = []string{"SLURM_JOB_ID=1"}
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return c
}

// The hooks do not get what slurmd's environment says to the Go runtime: with GOMAXPROCS=100000 they hang before
// main. They get everything else.
func TestGuardsIgnoreSettingsOfTheRuntime(t *testing.T) {
	for _, name := range []string{"prolog", "epilog"} {
		dir := t.TempDir()
		text, err := os.ReadFile(filepath.Join("../../../contrib/slurm/hooks", name))
		if err != nil {
			t.Fatal(err)
		}
		script := strings.ReplaceAll(string(text), "/usr/local/libexec/rt/", dir+"/")
		if err := os.WriteFile(filepath.Join(dir, "rt-"+name), []byte("#!/bin/sh\nenv\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SLURM_JOB_ID=1", "GOMAXPROCS=100000", "GOGC=1", "GOMEMLIMIT=1", "GODEBUG=gctrace=1", "GOTRACEBACK=crash"}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "\nGO") || strings.HasPrefix(string(out), "GO") || !strings.Contains(string(out), "SLURM_JOB_ID=1\n") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
