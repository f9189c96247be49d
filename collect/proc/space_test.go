package proc

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// fakeStatfs answers 1000 blocks of 4 KiB: 400 are free, 300 for users.
func fakeStatfs(_ string, st *unix.Statfs_t) error {
	*st = unix.Statfs_t{Bsize: 1 << 20, Frsize: 4096, Blocks: 1000, Bfree: 400, Bavail: 300}
	return nil
}

func newSpace(root FS, statfs func(string, *unix.Statfs_t) error) *Space {
	p := NewSpace(root)
	p.statfs = statfs
	return p
}

func TestSpace(t *testing.T) {
	root := fixture(t)
	synctest.Test(t, func(t *testing.T) { // where the first answers are in time on any machine
		s := once(t, newSpace(root, fakeStatfs))
		full := func(disk, point, fsType string) rt.MountReading {
			return rt.MountReading{Disk: disk, MountPoint: point, FSType: fsType, Total: 4096000, Available: 1228800, Used: 2457600}
		}
		want := []rt.MountReading{
			full("nvme0n1", "/", "ext4"), full("sda", "/scratch of\tall", "xfs"),
			full("dm-0", "/btrfs", "btrfs"), full("", "/tank", "zfs"),
		}
		if d := cmp.Diff(want, s.Mounts); d != "" {
			t.Errorf("mounts (-want +got):\n%s", d)
		}
		if total, free := s.Node.SpaceTotal.Or(0), s.Node.SpaceAvailable.Or(0); total != 4*4096000 || free != 4*1228800 {
			t.Errorf("sums %d, %d", total, free)
		}
	})
}

// If a file system hangs, a reading continues without the figures, until it responds again.
func TestSpaceThatHangs(t *testing.T) {
	root := fixture(t)
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		free := make(chan struct{})
		p := newSpace(root, func(path string, st *unix.Statfs_t) error {
			if hang.Load() && strings.HasSuffix(path, "/btrfs") {
				<-free
			}
			return fakeStatfs(path, st)
		})
		at := func(secs int64) (rt.Snapshot, error) {
			s := rt.Snapshot{Boot: secs * 1e9}
			err := p.Read(&s)
			synctest.Wait()
			return s, err
		}
		if s, err := at(0); err != nil || len(s.Mounts) != 4 {
			t.Errorf("at once: %d mounts, %v", len(s.Mounts), err)
		}
		hang.Store(true)
		for _, secs := range []int64{5, 11, 20, 40} { // asked again at 11; the old answers are good until 41
			if s, err := at(secs); err != nil || len(s.Mounts) != 4 || !s.Node.SpaceTotal.Valid() {
				t.Errorf("after %d s: %d mounts, %v", secs, len(s.Mounts), err)
			}
		}
		s, err := at(41)
		if err == nil || !strings.Contains(err.Error(), "/btrfs") || len(s.Mounts) != 0 || s.Node.SpaceTotal.Valid() {
			t.Errorf("after 41 s: %d mounts, %v", len(s.Mounts), err)
		}
		hang.Store(false)
		close(free)
		synctest.Wait()
		if s, err := at(42); err != nil || len(s.Mounts) != 4 {
			t.Errorf("freed: %d mounts, %v", len(s.Mounts), err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The first reading waits 50 ms and no longer.
func TestSpaceThatHangsFromTheFirst(t *testing.T) {
	root := fixture(t)
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		p := newSpace(root, func(path string, st *unix.Statfs_t) error { <-free; return fakeStatfs(path, st) })
		before := time.Now()
		for range 2 {
			var s rt.Snapshot
			if err := p.Read(&s); err != nil || len(s.Mounts) != 0 || s.Node.SpaceTotal.Valid() {
				t.Errorf("%d mounts, %v, %v", len(s.Mounts), s.Node.SpaceTotal, err)
			}
		}
		if waited := time.Since(before); waited != spaceFirstWait {
			t.Errorf("two readings waited %v", waited)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		close(free)
	})
}

func TestSpaceOfWhatAnswers(t *testing.T) {
	s := once(t, newSpace(fixture(t), func(path string, st *unix.Statfs_t) error {
		if strings.HasSuffix(path, "/btrfs") {
			return unix.EACCES
		}
		return fakeStatfs(path, st)
	}))
	if len(s.Mounts) != 3 {
		t.Errorf("%d mounts, want the three that answer", len(s.Mounts))
	}
}

// A defect in the worker is an error of the source, not the end of the tracker.
func TestSpaceThatPanics(t *testing.T) {
	root := fixture(t)
	synctest.Test(t, func(t *testing.T) {
		p := newSpace(root, func(string, *unix.Statfs_t) error { panic("a defect of ours") })
		var s rt.Snapshot
		if err := p.Read(&s); err == nil || !strings.Contains(err.Error(), "a defect of ours") || len(s.Mounts) != 0 {
			t.Errorf("%d mounts, %v", len(s.Mounts), err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSpaceWithoutMountinfo(t *testing.T) {
	root := NewFS(t.TempDir(), t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		p := NewSpace(root)
		var s rt.Snapshot
		if err := p.Read(&s); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestLocalMountsOfAContainer(t *testing.T) {
	overlay := "1 0 0:50 / / rw - overlay overlay rw\n2 1 0:51 / /proc rw - proc proc rw\n"
	for text, want := range map[string][]string{
		overlay: {"/"},
		overlay + "3 1 8:1 /v/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n": {"/etc/hosts"}, // its disk, seen once
		"1 0 0:2 / / rw - tmpfs tmpfs rw\n":                              nil,
		"":                                                               nil,
	} {
		var got []string
		for _, m := range localMounts(procfile.ParseMountinfo([]byte(text))) {
			got = append(got, m.Point)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s(-want +got):\n%s", text, d)
		}
	}
}

func FuzzLocalMounts(f *testing.F) {
	f.Add(files(f)["proc/1/mountinfo"])
	f.Fuzz(func(t *testing.T, b []byte) {
		all := procfile.ParseMountinfo(b)
		if local := localMounts(all); len(local) > len(all) {
			t.Errorf("%d of %d mounts are local", len(local), len(all))
		}
	})
}
