package live

import (
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func listen(t *testing.T, text string) *Listener {
	t.Helper()
	a, err := ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), a, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:9000": "127.0.0.1:9000", "[::1]:9000": "[::1]:9000", ":9000": ":9000", "unix:/run/rt.sock": "unix:/run/rt.sock",
		"9000": "", "localhost": "", "localhost:": "", "unix:": "", "unix:rt.sock": "", "": "",
	} {
		a, err := ParseAddress(text)
		if (err == nil) != (want != "") || err == nil && a.String() != want {
			t.Errorf("%q is %q, %v", text, a, err)
		}
	}
}

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true, ":0": true} {
		if got := listen(t, text).Public(); got != want {
			t.Errorf("%s: public %t", text, got)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s"
	l := listen(t, "unix:"+path)
	st, err := os.Lstat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v", st.Mode(), err)
	}
	a := Address{"unix", path}
	if _, err := Listen(t.Context(), a, 0); err == nil || !strings.Contains(err.Error(), "another program does") {
		t.Errorf("a second listener: %v", err)
	}
	l.l.(*net.UnixListener).SetUnlinkOnClose(false) // as if we had been killed
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	listen(t, "unix:"+path)

	file := t.TempDir() + "/f"
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), Address{"unix", file}, 0); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("at a plain file: %v", err)
	}
}

func TestMayWatch(t *testing.T) {
	for _, c := range []struct {
		uid, owner int
		want       bool
	}{{0, 1000, true}, {1000, 1000, true}, {1001, 1000, false}, {1000, 0, false}} {
		if got := mayWatch(c.uid, c.owner) == nil; got != c.want {
			t.Errorf("user %d watches a job of %d: %t", c.uid, c.owner, got)
		}
	}
}

// Another user that can reach the socket is refused by SO_PEERCRED.
func TestStrangerIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	dir, err := os.MkdirTemp("/tmp", "rt-live-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	l := listen(t, "unix:"+dir+"/s")
	refused := make(chan error, 1)
	if err := as(65534, func() error { _, err := net.Dial("unix", dir+"/s"); return err }); err == nil {
		t.Error("the socket's mode lets a stranger connect")
	}
	if err := os.Chmod(dir+"/s", 0o666); err != nil {
		t.Fatal(err)
	}
	go b.server.Accept(t.Context(), l)
	err = as(65534, func() error {
		conn, err := net.Dial("unix", dir+"/s")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		refused <- err
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err != io.EOF {
		t.Errorf("a stranger reads: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.logged) != 0 && !strings.Contains(b.logged[0], "user 65534") {
		t.Errorf("logged %q", b.logged)
	}
}

// as runs f on a thread that belongs to another user, and ends that thread.
func as(uid int, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread goes with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			result <- errno
			return
		}
		result <- f()
	}()
	return <-result
}
