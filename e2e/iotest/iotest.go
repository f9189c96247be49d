// Package iotest finds a directory for tests that measure I/O.
package iotest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir makes a directory on a file system for which the kernel counts writes in /proc/<pid>/io, and removes it when
// the test ends. It is below the first of the given directories that is on one. A tmpfs counts nothing. The test
// fails if none counts.
func Dir(t testing.TB, below ...string) string {
	t.Helper()
	var failed error
	for _, parent := range below {
		dir, err := os.MkdirTemp(parent, "rt-io-")
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a test that failed may still have writers
		if err = counts(dir); err == nil {
			return dir
		}
		failed = errors.Join(failed, err)
	}
	t.Fatalf("no directory for a test that measures I/O, put one of them on a disk: %v", failed)
	return ""
}

// counts writes 1 MiB and reads the counter of the writing thread.
func counts(dir string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size = 1 << 20
	file := filepath.Join(dir, "probe")
	before, err1 := written()
	err2 := os.WriteFile(file, make([]byte, size), 0o600)
	after, err3 := written()
	if err := errors.Join(err1, err2, err3, os.Remove(file)); err != nil {
		return err
	}
	if after-before < size {
		return fmt.Errorf("%s: 1 MiB was written, and write_bytes of /proc/thread-self/io grew by %d", dir, after-before)
	}
	return nil
}

// written returns write_bytes of this thread (Documentation/filesystems/proc.rst, 3.3).
func written() (n int64, err error) {
	const path = "/proc/thread-self/io"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var counters [6]int64 // rchar, wchar, syscr, syscw, read_bytes, write_bytes
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d\nwrite_bytes: %d",
		&counters[0], &counters[1], &counters[2], &counters[3], &counters[4], &counters[5])
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %q", path, err, text)
	}
	return counters[5], nil
}
