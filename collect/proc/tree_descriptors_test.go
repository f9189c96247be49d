package proc

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// startChild starts a child of the test that waits for its input to end.
func startChild(t *testing.T) {
	t.Helper()
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
}

// A tree without a free descriptor keeps its members as they were.
func TestTreeWithoutDescriptors(t *testing.T) {
	startChild(t)
	tree := NewTree(NewFS("/proc", "/sys"), os.Getpid())
	defer tree.Close()
	var s rt.Snapshot
	read := func() {
		t.Helper()
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	t.Run("without", func(t *testing.T) {
		useDescriptors(t)
		read()
	})
	startChild(t)
	read()
	if s.Tree.Children.Or(0) != 2 {
		t.Errorf("%v children, want 2", s.Tree.Children)
	}
}

// useDescriptors opens descriptors until none is free, for the rest of the test.
func useDescriptors(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var used []int
	t.Cleanup(func() {
		for _, fd := range used {
			_ = unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	})
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, fd)
	}
}
