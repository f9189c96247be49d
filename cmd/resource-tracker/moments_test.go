package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/spool"
)

// SIGTERM ends it with 0 at whatever moment it comes, with whole lines and a closed
// record. Before the program has begun at all the kernel ends it: then there is nothing.
func TestTermAtAnyMoment(t *testing.T) {
	t.Parallel()
	type end struct {
		cmd      *exec.Cmd
		out, err bytes.Buffer
		ended    error
		changes  int // of its spool before the signal
	}
	ends := make(chan *end)
	moments := []int{0, 0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20}
	for _, changes := range moments {
		e := &end{cmd: command(t, "-f", "csv", "--spool", "runs", "-o", "/dev/stdout"), changes: changes}
		e.cmd.Stdout, e.cmd.Stderr = &e.out, &e.err
		if err := e.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			seen := -1 // the first look is before any change
			changed := await.Changed(filepath.Join(e.cmd.Dir, "runs"), func() bool {
				seen++
				entries, err := spool.List(filepath.Join(e.cmd.Dir, "runs"))
				isWhole := err == nil && len(entries) == 1 && entries[0].Snapshots > 0
				return seen >= e.changes || isWhole
			})
			e.ended = errors.Join(changed, e.cmd.Process.Signal(syscall.SIGTERM), e.cmd.Wait())
			ends <- e
		}()
	}
	for range moments {
		e := <-ends
		dir := filepath.Join(e.cmd.Dir, "runs")
		entries, _ := spool.List(dir) // there may be none
		if status, ok := e.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM && e.out.Len()+e.err.Len()+len(entries) == 0 {
			continue
		}
		if e.ended != nil || e.err.Len() > 0 || !bytes.HasSuffix(e.out.Bytes(), []byte("\n")) || bytes.Count(e.out.Bytes(), []byte("\n")) < 2 {
			t.Errorf("after %d changes: %v, it said %q and wrote %q", e.changes, e.ended, e.err.String(), e.out.String())
		}
		if len(entries) != 1 || entries[0].Err != nil || entries[0].Run.State != rt.StateEnded || entries[0].Snapshots < 2 {
			t.Errorf("after %d changes: its spool holds %+v", e.changes, entries)
		}
	}
}
