package iotest

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestDir(t *testing.T) {
	dir := Dir(t, os.TempDir(), "/var/tmp", ".")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%s: %v, %v", dir, entries, err)
	}
}

// A file system in memory counts nothing.
func TestMemory(t *testing.T) {
	const tmpfs = 0x01021994 // TMPFS_MAGIC
	var fs syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &fs); err != nil || fs.Type != tmpfs {
		t.Logf("/dev/shm is not a tmpfs (type %#x, %v)", fs.Type, err)
		return
	}
	dir, err := os.MkdirTemp("/dev/shm", "rt-io-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := counts(dir); err == nil || !strings.Contains(err.Error(), "grew by 0") {
		t.Errorf("%s: %v", dir, err)
	}
}
