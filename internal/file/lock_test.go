package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := TryLock(path)
	if held == nil || err != nil {
		t.Fatalf("a free lock: %v, %v", held, err)
	}
	if second, err := TryLock(path); second != nil || err != nil {
		t.Errorf("a lock that is held: %v, %v", second, err)
	}
	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if second, err := TryLock(link); second != nil || !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to the lock: %v, %v", second, err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a released lock: %v", err)
	}
}
