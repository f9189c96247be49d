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

func heldBy(tree *Tree) (n int) {
	for i := range tree.members {
		if tree.members[i].held {
			n++
		}
	}
	return n
}

// All trees of the process share one maximum, and a tree without a free descriptor closes those it holds.
func TestTreeHeld(t *testing.T) {
	startChild(t)
	root := NewFS("/proc", "/sys")
	tree, other := NewTree(root, os.Getpid()), NewTree(root, os.Getpid())
	defer tree.Close()
	defer other.Close()
	var s rt.Snapshot
	read := func(tree *Tree) {
		t.Helper()
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	before := heldByAll.Load()
	read(tree)
	if n := heldBy(tree); n != 2 || heldByAll.Load() != before+2 {
		t.Errorf("%d members are held, %d by all trees before and %d after", n, before, heldByAll.Load())
	}
	most := int64(mostHeld())
	heldByAll.Add(most)
	read(other)
	heldByAll.Add(-most)
	if n := heldBy(other); n != 0 {
		t.Errorf("%d members are held over the maximum", n)
	}

	startChild(t)
	useDescriptors(t)
	read(tree)
	if n := heldBy(tree); n != 0 || heldByAll.Load() != before {
		t.Errorf("without a free descriptor %d members are held, by all trees %d", n, heldByAll.Load()-before)
	}
	read(tree)
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
