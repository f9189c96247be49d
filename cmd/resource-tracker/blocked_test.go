package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/spool"
)

// fullPipe is the writing end of a full pipe without a reader.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(p[0]) })
	if err := syscall.SetNonblock(p[1], true); err != nil {
		t.Fatal(err)
	}
	var err error
	for size := 1 << 16; size > 0; size /= 2 {
		for err == nil {
			_, err = syscall.Write(p[1], make([]byte, size))
		}
		if !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := syscall.SetNonblock(p[1], false); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(p[1]), "full pipe")
	t.Cleanup(func() { f.Close() })
	return f
}

// T-EOR-01, although its output, and even its messages, are not read.
func TestTermEndsItWithAReaderThatStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: it waits 5 s for a reader")
	}
	t.Parallel()
	for name, both := range map[string]bool{"standard output": false, "both": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "-o", "/dev/stdout", "--spool", "runs")
			var stderr bytes.Buffer
			pipe := fullPipe(t)
			cmd.Stdout, cmd.Stderr = pipe, &stderr
			if both {
				cmd.Stderr = pipe
			}
			s := &session{t: t, cmd: cmd}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitReadings(t, filepath.Join(cmd.Dir, "runs"), 0)
			s.send(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if n := awaitReadings(t, filepath.Join(cmd.Dir, "runs"), 2); n < 2 {
				t.Errorf("%d readings are kept", n)
			}
			if !both && !strings.Contains(stderr.String(), "lines were not written to /dev/stdout: its reader is too slow") {
				t.Errorf("said: %s", stderr.String())
			}
		})
	}
}

// With a command all readings are kept and the status is the command's, although the samples
// are not read. With a receiver the readings are committed each second, which the test waits for.
func TestReadingsAreKeptWithAReaderThatStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: it waits 5 s for a reader")
	}
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("-o", "/dev/stdout", "--spool", "runs", "sh", "-c", "cat; exit 7")
	endCommand := commandInput(t, cmd)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = fullPipe(t), &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(cmd.Dir, "runs")
	while := awaitReadings(t, runs, 3)
	endCommand()
	_ = cmd.Wait() // with status 7
	if status := cmd.ProcessState.ExitCode(); status != 7 {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	if n := awaitReadings(t, runs, 0); n <= while {
		t.Errorf("%d readings at the end, %d before", n, while)
	}
}

// awaitReadings waits for the one run of a spool to be there, and returns how many
// readings it has by then.
func awaitReadings(t *testing.T, dir string, least int64) (n int64) {
	t.Helper()
	await.Change(t, dir, "a run with readings", func() bool {
		entries, err := spool.List(dir)
		isThere := err == nil && len(entries) == 1 && entries[0].Err == nil && entries[0].Snapshots >= least
		if isThere {
			n = entries[0].Snapshots
		}
		return isThere
	})
	return n
}
