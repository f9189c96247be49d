package main

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// printsInits makes each Go program print a line for each of its packages. So a test sees whether
// the runtime started. The runtime opens descriptors for its first timer, at any moment, and ends
// the program if that fails.
const printsInits = "GODEBUG=inittrace=1"

// With fewer than 32 descriptors the command runs untracked, and the Go runtime does not start. The dynamic loader
// needs one descriptor after standard error, or no dynamically linked program starts.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	closeInherited(t)
	users := []*syscall.SysProcAttr{nil}
	if os.Getuid() == 0 {
		users = append(users, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	}
	program := executableByAll(t)
	const few = "the limit on open files is less than 32: raise it (ulimit -n)\n"
	for _, tt := range []struct {
		limit  string // soft:hard
		args   []string
		status int
		out    string
	}{
		{"4:4", []string{"--quiet", "--", "sh", "-c", "echo started; exit 7"}, 7, "warning: the command runs untracked: " + few + "started\n"},
		{"17:17", []string{"sh", "-c", "echo started; exit 7"}, 7, "warning: the command runs untracked: " + few + "started\n"},
		{"4:31", []string{"sh", "-c", "ulimit -n"}, 0, "warning: the command runs untracked: " + few + "4\n"},
		{"5:5", []string{"--interval", "1"}, 1, few},
		{"31:31", []string{"--no-such-flag", "sh"}, 2, "unknown flag, see --help; " + few},
	} {
		for i, user := range users {
			cmd := exec.Command("prlimit", append([]string{"--nofile=" + tt.limit, program}, tt.args...)...)
			cmd.Env, cmd.SysProcAttr, cmd.Dir = append(command(t).Env, printsInits), user, "/"
			out, err := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); status != tt.status || string(out) != "resource-tracker: "+tt.out {
				t.Errorf("limit %s, %q, user %d: %v, %q", tt.limit, tt.args, i, err, out)
			}
		}
	}
}

// The hard limit counts, because the runtime raises the soft one to it. The command has the soft one again.
func TestEnoughDescriptors(t *testing.T) {
	t.Parallel()
	closeInherited(t)
	cmd := exec.Command("prlimit", "--nofile=4:32", "resource-tracker", "--quiet", "--", "sh", "-c", "ulimit -n")
	cmd.Env, cmd.Dir = command(t).Env, t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "4\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// closeInherited keeps the descriptors that some terminals leave open from the programs of a test, which need the lowest ones.
func closeInherited(t *testing.T) {
	t.Helper()
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Fatal(err)
	}
}

// executableByAll copies the program to a directory that each user can enter.
func executableByAll(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("resource-tracker")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path = filepath.Join(dir, "resource-tracker")
	// A child that another test forks has the file open for writing until the child executes its
	// program. The kernel starts no file that is open for writing (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(os.WriteFile(path, text, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
