package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStalledExec: a tracker that cannot be opened, as on a dead file system,
// does not make the job wait. The kernel suspends the hook's thread, which keeps its
// processor of the runtime, until the tracker's exec has returned.
func TestStalledExec(t *testing.T) {
	dir := t.TempDir()
	path, log := filepath.Join(dir, "rt-tracker"), filepath.Join(dir, "rt.log")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("[spool]\ndir = %q\nuser = \"root\"\n[tracker]\npath = %q\nstate_dir = %q\n[hooks]\ndisable_file = %q\nready_timeout = \"50ms\"\n[log]\ntarget = %q\n",
		filepath.Join(dir, "spool"), path, filepath.Join(dir, "state"), filepath.Join(dir, "disabled"), log)
	if err := os.WriteFile(filepath.Join(dir, "rt.toml"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	// A process that opens a file with a lease waits until the holder releases it, at most
	// 45 seconds (/proc/sys/fs/lease-break-time).
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("cannot get a lease of %s: %v", path, err)
	}
	cmd := exec.Command("rt-prolog-quick", "--config", filepath.Join(dir, "rt.toml"))
	cmd.Env = append(os.Environ(), "WORK="+dir, "SLURM_JOB_ID=12", "SLURMD_NODENAME=n1")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "error: job 12@n1: gave up after 450ms") {
		t.Errorf("log %q, %v", text, err)
	}
}
