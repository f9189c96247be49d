package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// With fewer than 32 descriptors the command runs untracked. The dynamic loader needs one
// descriptor after standard error, or no dynamically linked program starts.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	users := []*syscall.SysProcAttr{nil}
	if os.Getuid() == 0 {
		users = append(users, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	}
	program := executableByAll(t)
	step := 1
	if testing.Short() { // make check has each limit
		step = 6
	}
	for limit := 4; limit <= 17; limit += step {
		for i, user := range users {
			tracked := command(t, "sh", "-c", "echo started; exit 7")
			cmd := exec.Command("prlimit", append([]string{fmt.Sprintf("--nofile=%d:%d", limit, limit), program}, tracked.Args[1:]...)...)
			cmd.Env, cmd.SysProcAttr, cmd.Dir = tracked.Env, user, "/"
			out, err := cmd.CombinedOutput()
			var failed *exec.ExitError
			if !errors.As(err, &failed) || failed.ExitCode() != 7 {
				t.Errorf("limit %d, user %d: %v, %s", limit, i, err, out)
			}
			warning, rest, _ := strings.Cut(string(out), "\n")
			if !strings.Contains(warning, "the command runs untracked: the limit on open files is less than 32") || rest != "started\n" {
				t.Errorf("limit %d, user %d: %q", limit, i, out)
			}
		}
	}
	cmd := exec.Command("prlimit", "--nofile=5:5", "resource-tracker")
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(string(out), "raise it (ulimit -n)") {
		t.Errorf("without a command: %v, %s", err, out)
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
	if err := errors.Join(os.WriteFile(path, text, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
