package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
// are not read.
func TestReadingsAreKeptWithAReaderThatStandsStill(t *testing.T) {
	t.Parallel()
	cmd := command(t, "-o", "/dev/stdout", "--spool", "runs", "sh", "-c", "sleep 4.5; exit 7") // ample: the machine may be busy
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = fullPipe(t), &stderr
	_ = cmd.Run() // with status 7
	if status := cmd.ProcessState.ExitCode(); status != 7 {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	if n := awaitReadings(t, filepath.Join(cmd.Dir, "runs"), 4); n < 4 {
		t.Errorf("%d readings, one a second and the last were expected", n)
	}
}

// awaitReadings waits for the one run of a spool to be there, and returns how many
// readings it has by then.
func awaitReadings(t *testing.T, dir string, least int64) int64 {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		entries, err := spool.List(dir)
		if err == nil && len(entries) == 1 && entries[0].Err == nil && entries[0].Snapshots >= least {
			return entries[0].Snapshots
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, %+v", err, entries)
		}
	}
}
