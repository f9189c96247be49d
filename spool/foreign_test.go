package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A file that another user has put into a spool is not opened, whatever its name is.
func TestForeignFilesAreRefused(t *testing.T) {
	base, dir := sharedSpool(t)
	victim := filepath.Join(base, "victim.db")
	good := endedFile(t, 5)
	for path, uid := range map[string]int{victim: 0, filepath.Join(dir, "stranger.db"): strangerUID, filepath.Join(dir, "mine.db"): trackerUID} {
		if err := errors.Join(os.WriteFile(path, good, 0o600), os.Chown(path, uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link.db": victim, "loop.db": "loop.db", "dangling.db": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		switch name := filepath.Base(e.Path); {
		case name == "mine.db":
			if e.Err != nil || e.Snapshots != 5 {
				t.Errorf("the good one: %+v", e)
			}
		case !errors.Is(e.Err, ErrForeign):
			t.Errorf("%s: %v", name, e.Err)
		case name == "stranger.db" && !strings.Contains(e.Err.Error(), fmt.Sprint("belongs to uid ", strangerUID)),
			name != "stranger.db" && !strings.Contains(e.Err.Error(), "symbolic link"):
			t.Errorf("%s: the message does not say why: %v", name, e.Err)
		}
		if _, err := Open(e.Path); (err == nil) != (e.Err == nil) {
			t.Errorf("Open of %s: %v", e.Path, err)
		}
	}
	if now, err := os.ReadFile(victim); err != nil || !bytes.Equal(now, good) {
		t.Errorf("the file that a link leads to has changed: %v", err)
	}
}

// Root copies runs of several nodes into one directory and keeps their owners. It reads them,
// unless other users can write to the directory.
func TestCopyKeepsItsOwner(t *testing.T) {
	base, _ := sharedSpool(t)
	good := endedFile(t, 5)
	for mode, isRead := range map[os.FileMode]bool{0o755: true, 0o700: true, 0o775: false, 0o777 | os.ModeSticky: false} {
		dir := filepath.Join(base, fmt.Sprintf("copy-%o", mode))
		path := filepath.Join(dir, "copied.db")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, good, 0o600), os.Chown(path, trackerUID, trackerUID), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		entries, err := FindJob(dir, path)
		isWhole := err == nil && entries[0].Snapshots == 5
		if isRead && !isWhole {
			t.Errorf("%v: %v", mode, err)
		}
		if !isRead && !errors.Is(err, ErrForeign) {
			t.Errorf("%v: %v, want ErrForeign", mode, err)
		}
	}
}

// Functions that list runs to change them refuse a copy of another owner, even with a valid mark.
// gc does not remove it.
func TestCopyOfAnotherOwnerIsNotChanged(t *testing.T) {
	base, _ := sharedSpool(t)
	dir := filepath.Join(base, "copy")
	path := filepath.Join(dir, "copied.db")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, endedFile(t, 5), 0o600), os.Chown(path, trackerUID, trackerUID)); err != nil {
		t.Fatal(err)
	}
	check := func(want error) {
		t.Helper()
		n := 0
		err := Walk(dir, func(e *Entry) {
			n++
			if !errors.Is(e.Err, want) {
				t.Errorf("Walk: %v, want %v", e.Err, want)
			}
		})
		if err != nil || n != 1 {
			t.Errorf("%d runs, %v", n, err)
		}
		done, _, err := Collect(t.Context(), dir, GC{Undelivered: true, DryRun: want == nil, Now: time.Now().Add(time.Hour)})
		if isTaken := len(done) > 0; err != nil || isTaken != (want == nil) {
			t.Errorf("gc: %+v, %v", done, err)
		}
	}
	check(ErrForeign)
	if !exists(path) {
		t.Error("gc has removed the run")
	}
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	check(nil)
}

// The directory's owner puts a hard link or a symbolic link to a file in the place of the lock. A
// drain of root does not change the file's owner.
func TestLockGivesNothingAway(t *testing.T) {
	base, dir := sharedSpool(t)
	lock := filepath.Join(dir, drainLock)
	unlock, err := LockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if uid := ownerOf(t, lock); uid != trackerUID {
		t.Errorf("the lock belongs to uid %d, not to the directory's owner", uid)
	}
	if err := errors.Join(unlock(), os.Remove(lock)); err != nil {
		t.Fatal(err)
	}
	full, empty := filepath.Join(base, "full"), filepath.Join(base, "empty")
	if err := errors.Join(os.WriteFile(full, []byte("x"), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func() error{
		"hard link":          func() error { return os.Link(full, lock) },
		"hard link to empty": func() error { return os.Link(empty, lock) },
		"symbolic link":      func() error { return os.Symlink(full, lock) },
		"content":            func() error { return os.WriteFile(lock, []byte("x"), 0o600) },
		"fifo":               func() error { return syscall.Mkfifo(lock, 0o600) },
		"directory":          func() error { return os.Mkdir(lock, 0o700) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if _, err := LockDir(t.Context(), dir); err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", what, err)
		}
		for _, path := range []string{full, empty, lock} {
			if uid := ownerOf(t, path); uid != 0 {
				t.Errorf("%s: %s now belongs to uid %d", what, path, uid)
			}
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}
