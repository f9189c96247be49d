package launch

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt/internal/file"
)

// TestLockExcludes: many processes that want a lock get it, one at a time.
func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lockPath(path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var holders, turns atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			l, err := lockPath(path, time.Now().Add(10*time.Minute))
			if err != nil {
				t.Error(err)
				return
			}
			if holders.Add(1) != 1 {
				t.Error("two hold the lock")
			}
			turns.Add(1)
			holders.Add(-1)
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	if turns.Load() != 0 {
		t.Error("a lock that is held was taken")
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if turns.Load() != 64 {
		t.Errorf("%d of 64 had the lock", turns.Load())
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestLockInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lockPath(path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if l, err := lockPath(path, time.Now().Add(20*time.Millisecond)); l != nil || err == nil {
		t.Errorf("a lock that is held: %v, %v", l, err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
}

// The lock of a run is in the spool directory, which is not root's: what is at its path does not block the
// Epilog.
func TestAwaitReleaseOfNoLock(t *testing.T) {
	dir := t.TempDir()
	fifo, link, path := filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "held")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := file.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, filepath.Join(dir, "missing")} {
		awaitRelease(path, time.Now().Add(24*time.Hour))
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
}
