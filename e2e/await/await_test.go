package await

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	looked := make(chan struct{}, 10)
	go func() {
		<-looked // the directory did not exist
		made := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600))
		for range 2 {
			f, err := os.OpenFile(filepath.Join(dir, "a"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				made = errors.Join(made, err)
				break
			}
			_, err = f.WriteString("x")
			made = errors.Join(made, err, f.Close())
		}
		if made != nil {
			t.Error(made)
		}
	}()
	text := []byte{}
	Change(t, dir, "three letters", func() bool {
		select {
		case looked <- struct{}{}:
		default:
		}
		text, _ = os.ReadFile(filepath.Join(dir, "a"))
		return len(text) >= 3
	})
	if string(text) != "xxx" {
		t.Errorf("%q", text)
	}
	File(t, filepath.Join(dir, "a"))
}

func TestExit(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go in.Close()
	Exit(t, cmd.Process.Pid)
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil || info.Signo != int32(unix.SIGCHLD) {
		t.Errorf("%v, signal %d: the process has not ended", err, info.Signo)
	}
	Exit(t, cmd.Process.Pid) // a zombie
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	Exit(t, cmd.Process.Pid) // nothing
}

func TestChannel(t *testing.T) {
	c := make(chan int, 1)
	c <- 7
	if v := Channel(t, "a number", c); v != 7 {
		t.Errorf("%d", v)
	}
	close(c)
	if v := Channel(t, "the end", c); v != 0 {
		t.Errorf("%d", v)
	}
}

func TestUnlocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	Unlocked(t, path) // it does not exist
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	go f.Close()
	Unlocked(t, path)
	if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v: the file with the lock is not closed", err)
	}
}
