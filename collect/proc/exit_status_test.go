package proc

import (
	"os/exec"
	"testing"
)

// Since Linux 6.15 the kernel keeps the status of a process that was waited for while a
// pidfd is open. Before, it must be absent, never a guess.
func TestExitStatus(t *testing.T) {
	for _, tc := range []struct {
		script string
		exit   int
		signal int
	}{{"exit 0", 0, -1}, {"exit 7", 7, -1}, {"kill -TERM $$", -1, 15}} {
		cmd := exec.Command("/bin/sh", "-c", "read x; "+tc.script)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		e, err := NewExitStatus(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if st, ok := e.Status().Get(); ok {
			t.Fatalf("%s: status %v of a process that still runs", tc.script, st)
		}
		in.Close()
		_ = cmd.Wait() // the status is the test's subject, not an error
		st, ok := e.Status().Get()
		if !ok {
			t.Logf("%s: this kernel keeps no exit status", tc.script)
			continue
		}
		if tc.signal >= 0 && (!st.Signaled() || int(st.Signal()) != tc.signal) {
			t.Errorf("%s: status %v, want signal %d", tc.script, st, tc.signal)
		}
		if tc.exit >= 0 && (!st.Exited() || st.ExitStatus() != tc.exit) {
			t.Errorf("%s: status %v, want exit %d", tc.script, st, tc.exit)
		}
	}
	if _, err := NewExitStatus(1 << 22); err == nil {
		t.Error("a pidfd of a process that cannot exist")
	}
}
