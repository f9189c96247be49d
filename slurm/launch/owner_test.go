package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Where another user can write a state file, the hooks start and signal nothing.
func TestHooksRefuseStateOfOthers(t *testing.T) {
	const other = 65534
	for name, change := range map[string]func(state, above string) error{
		"owned by another user":         func(state, _ string) error { return os.Chown(state, other, other) },
		"written by all":                func(state, _ string) error { return os.Chmod(state, 0o777) },
		"sticky":                        func(state, _ string) error { return os.Chmod(state, 0o777|os.ModeSticky) },
		"written by a group":            func(state, _ string) error { return writtenByGroup(state, other) },
		"below another user's":          func(_, above string) error { return os.Chown(above, other, other) },
		"below one that all write":      func(_, above string) error { return os.Chmod(above, 0o777) },
		"below one that a group writes": func(_, above string) error { return writtenByGroup(above, other) },
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHook(t, fakeGood)
			victim := forge(t, h)
			err := change(h.State.Dir, filepath.Dir(h.State.Dir))
			if os.Getuid() != 0 && err != nil {
				t.Skipf("needs root to give a directory away: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for hook, err := range map[string]error{"Epilog": h.Epilog(epilog12, exit7), "Prolog": h.Prolog(jobRun(12, 1, 0)), "Prolog of another job": h.Prolog(jobRun(13, 0, 0))} {
				if err == nil || !strings.Contains(err.Error(), "is not safe") {
					t.Errorf("%s: %v", hook, err)
				}
			}
			if left := stateFiles(t, h); len(left) != 1 {
				t.Errorf("the state directory has %q, want the forged file only", left)
			}
			if err := victim.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = victim.Wait() // it was killed
			if ended, ok := victim.ProcessState.Sys().(syscall.WaitStatus); !ok || ended.Signal() != syscall.SIGKILL {
				t.Errorf("the process that the forged file names: %v, want only the signal of this test", victim.ProcessState)
			}
		})
	}
}

// Directories that no other user can change are accepted: root's and the hook's own, also below a sticky one.
func TestHooksAcceptOwnState(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	above := filepath.Join(dir, "sticky")
	if err := os.Mkdir(above, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(above, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{filepath.Join(above, "state"), filepath.Join(dir, "new", "state")} {
		h.State.Dir = state
		if err := h.State.create(); err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if err := h.Epilog(epilog12, exit7); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
	h.State.Dir = filepath.Join(dir, "missing")
	if err := h.Epilog(epilog12, exit7); err != nil {
		t.Errorf("without a directory: %v", err)
	}
}

// forge starts a process and writes a state file of job 12 that names it.
func forge(t *testing.T, h *Hook) *exec.Cmd {
	t.Helper()
	victim := exec.Command("cat", filepath.Join(filepath.Dir(h.Tracker), "never"))
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill() // the test may have ended it
		_ = victim.Wait()
	})
	stat, err := procfile.ReadStat("/proc", victim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.State.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.State.writeStateFile(12, "n1", StateFile{PID: victim.Process.Pid, PIDStart: stat.Start, RunID: stem12, Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return victim
}

func writtenByGroup(dir string, gid int) error {
	if err := os.Chown(dir, -1, gid); err != nil {
		return err
	}
	return os.Chmod(dir, 0o775)
}
