// Package await lets a test wait for events of the kernel: a changed directory, the end of a process, a lock that is
// free. None of the functions asks again after a pause.
package await

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Limit is the time after which a wait fails the test. It is long, because a busy machine must not fail a test.
const Limit = 2 * time.Minute

// changes are the events after which a test looks again. Reading a file is none of them.
const changes = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_CLOSE_WRITE

// Change waits until isThere returns true. It calls isThere at once and after each change of dir and of the files in
// it. The directory need not exist at first. what names the condition if it does not come.
func Change(t testing.TB, dir, what string, isThere func() bool) {
	t.Helper()
	if err := Changed(dir, isThere); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Changed is Change for a program that a test runs.
func Changed(dir string, isThere func() bool) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if err := events.SetReadDeadline(time.Now().Add(Limit)); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		if err := watch(fd, dir); err != nil {
			return err
		}
		if isThere() {
			return nil
		}
		if _, err := events.Read(buf); err != nil {
			return fmt.Errorf("wait for a change in %s: %w", dir, err)
		}
	}
}

// watch watches a directory, and as long as it does not exist, the nearest one above it.
func watch(fd int, dir string) error {
	for {
		_, err := unix.InotifyAddWatch(fd, dir, changes)
		if !errors.Is(err, unix.ENOENT) || dir == "/" || dir == "." {
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// File waits until a file exists.
func File(t testing.TB, path string) {
	t.Helper()
	Change(t, filepath.Dir(path), path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// Exit waits until a process has ended; it need not be a child. A zombie has ended.
func Exit(t testing.TB, pid int) {
	t.Helper()
	if err := Exited(pid); err != nil {
		t.Fatal(err)
	}
}

// Exited is Exit for a program or a script that a test runs.
func Exited(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	for end := time.Now().Add(Limit); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", pid, err)
		case n == 0:
			return fmt.Errorf("process %d runs after %v", pid, Limit)
		default:
			return nil
		}
	}
}

// Unlocked waits until no process has an exclusive flock on a file. A file that does not exist has none.
func Unlocked(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	locked := make(chan error, 1)
	go func() { locked <- lockShared(f) }()
	if err := Channel(t, "the lock of "+path, locked); err != nil {
		t.Fatal(err)
	}
}

func lockShared(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Channel returns the next value of a channel, or the zero value of a closed one.
func Channel[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Limit):
		t.Fatalf("%s does not come within %v", what, Limit)
		panic("unreachable")
	}
}
