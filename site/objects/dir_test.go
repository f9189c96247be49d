package objects

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/site"
)

func openDir(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "objects")
	testStore(t, openDir(t, dir))
	if left := files(t, dir); !slices.Equal(left, []string{".new"}) {
		t.Errorf("the emptied directory has %q", left)
	}
}

// files lists all files and directories below dir.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var steps = []string{stepCreated, stepWritten, stepSynced, stepRenamed, stepDirSynced}

// A symbolic link in the directory leads nowhere.
func TestDirHasNoWayOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	d := openDir(t, dir)
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{runA: outside, "up": "../" + filepath.Base(outside), "file": secret} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{runA + "/secret", "up/secret", "file"} {
		if r, err := d.Get(t.Context(), name); err == nil {
			t.Errorf("%s was read", name)
			_ = r.Close()
		}
	}
	for _, name := range []string{runA + "/secret", runA + "/other", "up/secret"} {
		if err := d.Put(t.Context(), name, 1, bytes.NewReader([]byte("x"))); err == nil {
			t.Errorf("%s was written", name)
		}
		if err := d.Delete(t.Context(), name); err == nil {
			t.Errorf("%s was deleted", name)
		}
	}
	if got := list(t, d, ""); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
	if got := files(t, outside); !slices.Equal(got, []string{"secret"}) {
		t.Errorf("outside there are %q", got)
	}
}

// An error of each step leaves the earlier state, or after the rename the new object.
func TestDirFullDisk(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		for at, step := range steps {
			dir := t.TempDir()
			d := openDir(t, dir)
			put(t, d, runB+"/old", []byte("old"))
			before := files(t, dir)
			d.at = func(s string) error {
				if s == step {
					return errno
				}
				return nil
			}
			isReplaced := at >= slices.Index(steps, stepRenamed)
			for _, name := range []string{runA + "/new", runB + "/old"} {
				err := d.Put(t.Context(), name, 3, bytes.NewReader([]byte("new")))
				if !errors.Is(err, errno) || errors.Is(err, site.ErrFull) != (errno != syscall.EIO) {
					t.Errorf("%s: %v: %v", step, errno, err)
				}
			}
			if isReplaced {
				holds(t, d, runA+"/new", []byte("new"))
				holds(t, d, runB+"/old", []byte("new"))
				continue
			}
			holds(t, d, runA+"/new", nil)
			holds(t, d, runB+"/old", []byte("old"))
			if after := files(t, dir); !slices.Equal(after, before) {
				t.Errorf("%s: %v: %q, want %q", step, errno, after, before)
			}
		}
	}
}

// The order of the steps is what makes an object durable.
func TestDirSteps(t *testing.T) {
	d := openDir(t, t.TempDir())
	var got []string
	d.at = func(s string) error { got = append(got, s); return nil }
	if put(t, d, runA+"/x", []byte("x")); !slices.Equal(got, steps) {
		t.Errorf("%q, want %q", got, steps)
	}
}

// TestDirSmallDisk is TestDirFullDisk on a real file system.
func TestDirSmallDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=64"); err != nil {
		t.Skipf("needs root: mounts a tmpfs of 1 MiB (%v); TestDirFullDisk covers the rest", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	d := openDir(t, dir)
	put(t, d, runA+"/small", []byte("small"))
	before := files(t, dir)
	big := random(2 << 20)
	if err := d.Put(t.Context(), nameOf(runB, big), int64(len(big)), bytes.NewReader(big)); !errors.Is(err, site.ErrFull) {
		t.Errorf("%v, want %v", err, site.ErrFull)
	}
	if after := files(t, dir); !slices.Equal(after, before) {
		t.Errorf("%q, want %q", after, before)
	}
	var err error
	for n := 0; err == nil && n < 100; n++ { // no inode is left
		err = d.Put(t.Context(), nameOf(runB, []byte{byte(n)}), 1, bytes.NewReader([]byte{byte(n)}))
	}
	if !errors.Is(err, site.ErrFull) {
		t.Errorf("%v, want %v", err, site.ErrFull)
	}
	if _, err := os.ReadDir(filepath.Join(dir, tempDir)); err != nil {
		t.Error(err)
	}
	holds(t, d, runA+"/small", []byte("small"))
	for i, err := range d.List(t.Context(), runB) {
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Delete(t.Context(), i.Name); err != nil {
			t.Error(err) // a full disk does not keep its objects
		}
	}
	put(t, d, runB+"/again", []byte("again"))
}

const envKill = "RT_TEST_KILL_AT"

// TestDirKilledProcess is the process that TestDirKilled kills.
func TestDirKilledProcess(t *testing.T) {
	step := os.Getenv(envKill)
	if step == "" {
		return // in the process of the test there is nothing to do
	}
	d := openDir(t, os.Getenv(envKill+"_DIR"))
	d.at = func(s string) error {
		if s == step {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	put(t, d, os.Getenv(envKill+"_NAME"), random(1<<20))
	t.Error("the process was not killed")
}

// A process that is killed between two steps leaves the whole object under its name, or none; the
// next process removes the rest.
func TestDirKilled(t *testing.T) {
	body := random(1 << 20)
	for at, step := range steps {
		for _, name := range []string{runA + "/new", runB + "/old"} {
			dir := t.TempDir()
			d, err := OpenDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			put(t, d, runB+"/old", []byte("old"))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			child := exec.Command(os.Args[0], "-test.run=^TestDirKilledProcess$")
			child.Env = append(os.Environ(), envKill+"="+step, envKill+"_DIR="+dir, envKill+"_NAME="+name)
			text, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s: %v: %s", step, err, text)
			}
			want := map[string][]byte{runA + "/new": nil, runB + "/old": []byte("old")}
			if at >= slices.Index(steps, stepRenamed) {
				want[name] = body
			}
			d = openDir(t, dir)
			for name, bytes := range want {
				holds(t, d, name, bytes)
			}
			left, err := os.ReadDir(filepath.Join(dir, tempDir))
			if err != nil || len(left) != 0 {
				t.Errorf("%s: the next process has left %v, %v", step, left, err)
			}
			put(t, d, name, body)
			holds(t, d, name, body)
		}
	}
}

// Another process that opens the directory does not remove a file that is being written.
func TestDirShared(t *testing.T) {
	dir := t.TempDir()
	first := openDir(t, dir)
	r, w := io.Pipe()
	stored := make(chan error, 1)
	go func() { stored <- first.Put(t.Context(), runA+"/x", 6, r) }()
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	second := openDir(t, dir)
	holds(t, second, runA+"/x", nil)
	if got := list(t, second, ""); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
	_, err := w.Write([]byte("def"))
	if err := errors.Join(err, w.Close(), <-stored); err != nil {
		t.Fatal(err)
	}
	holds(t, second, runA+"/x", []byte("abcdef"))
}

func TestOpenDirRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(file); err == nil {
		t.Error("a file was opened as a directory")
	}
}
