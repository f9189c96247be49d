package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
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
		after    time.Duration
	}
	ends := make(chan *end)
	const moments = 14 // up to 2 s
	for i := range moments {
		e := &end{cmd: command(t, "-f", "csv", "--spool", "runs", "-o", "/dev/stdout"), after: 250 * time.Microsecond << i}
		e.cmd.Stdout, e.cmd.Stderr = &e.out, &e.err
		if err := e.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(e.after)
			err := e.cmd.Process.Signal(syscall.SIGTERM)
			e.ended = errors.Join(err, e.cmd.Wait())
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
			t.Errorf("after %s: %v, it said %q and wrote %q", e.after, e.ended, e.err.String(), e.out.String())
		}
		if len(entries) != 1 || entries[0].Err != nil || entries[0].Run.State != rt.StateEnded || entries[0].Snapshots < 2 {
			t.Errorf("after %s: its spool holds %+v", e.after, entries)
		}
	}
}
