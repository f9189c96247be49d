package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/resource-tracker/rt/tracker"
)

// hugePages returns the THP_enabled lines of proc_pid_status(5).
func hugePages(status []byte) string {
	return string(bytes.Join(regexp.MustCompile(`(?m)^THP_enabled:.*\n`).FindAll(status, -1), nil))
}

func ownHugePages(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	return hugePages(status)
}

// This program uses no transparent huge pages. Its command has the setting that it would have without this program, also
// if another task tracks the step and this process becomes the command.
func TestCommandKeepsHugePages(t *testing.T) {
	const without, with = "THP_enabled:\t0\n", "THP_enabled:\t1\n" // the parent of this test has not disabled them
	if got := ownHugePages(t); got != without {
		t.Errorf("this program has %q", got)
	}
	// The parent has huge pages until it has started the command, which may run before that. A number of tries, only not to hang.
	const untilParentHasNone = "n=0; while [ $n -lt 500 ] && ! grep -q 'THP_enabled:.*0' /proc/$PPID/status; do n=$((n + 1)); done"
	dir := t.TempDir()
	holder := tracker.AcquireStepLock(dir, "77.8@nowhere7.step-lock")
	if !holder.Held() {
		t.Fatal("the step's lock is not free")
	}
	defer holder.Close()
	for name, step := range map[string]string{"wrapped": "7", "replaced": "8"} {
		wrapped := func() *exec.Cmd {
			return inStep(t, dir, step, "-q", "--spool", ".", "sh", "-c", untilParentHasNone+"; cat /proc/$PPID/status /proc/self/status")
		}
		cmd := wrapped()
		restore := enableHugePages()
		err := cmd.Start()
		restore()
		if err == nil {
			err = cmd.Wait()
		}
		got := hugePages(cmd.Stdout.(*bytes.Buffer).Bytes())
		if want := without + with; err != nil || got != want {
			t.Errorf("%s: its parent and it have %q, want %q (%v)", name, got, want, err)
		}
		cmd = wrapped()
		err = cmd.Run() // as a child of this test, which has no huge pages
		got = hugePages(cmd.Stdout.(*bytes.Buffer).Bytes())
		if want := without + without; err != nil || got != want {
			t.Errorf("%s, without huge pages from the start: its parent and it have %q, want %q (%v)", name, got, want, err)
		}
	}
	if got := ownHugePages(t); got != without {
		t.Errorf("this program has %q afterwards", got)
	}
}
