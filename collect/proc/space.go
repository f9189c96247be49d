package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
	"github.com/resource-tracker/rt/internal/recovery"
)

const (
	spaceEvery     = 10 * time.Second      // between two calls for each file system
	spaceFirstWait = 50 * time.Millisecond // the first reading waits so long for its figures
	spaceStuck     = 30 * time.Second      // after which the figures are outdated
)

// Space reads the space of the local file systems with statvfs(3). A file system that hangs
// must not delay a reading. So a goroutine makes the calls about every ten seconds, and a
// reading takes the last results. Once a result is half a minute overdue, the figures are
// absent.
type Space struct {
	named
	fs     FS
	statfs func(path string, buf *unix.Statfs_t) error
	info   string // path of mountinfo

	round *spaceRound // the newest one
	last  *spaceRound // the newest one that has ended
}

// spaceRound is a round of calls. Its goroutine writes the results before it closes done.
type spaceRound struct {
	asked  int64        // boot time of the reading that started it
	active atomic.Value // the mount point of the call in progress
	done   chan struct{}
	mounts []rt.MountReading
	err    error // why there are none
}

// NewSpace returns the source of Snapshot.Mounts and of the node's sums of space.
func NewSpace(fs FS) *Space {
	self := "/self/mountinfo"
	if fs.Proc != "/proc" {
		self = "/1/mountinfo" // self is no process of another root
	}
	return &Space{named: "space", fs: fs, statfs: unix.Statfs, info: fs.Proc + self}
}

// Read fills s.Mounts and the sums of s.Node with the last results, and starts a new
// round if those are ten seconds old.
func (p *Space) Read(s *rt.Snapshot) error {
	if p.round == nil {
		p.start(s.Boot)
		select {
		case <-p.round.done:
		case <-time.After(spaceFirstWait):
		}
	}
	overdue := time.Duration(s.Boot - p.round.asked)
	if isDone(p.round.done) {
		p.last = p.round
		if overdue >= spaceEvery {
			p.start(s.Boot)
		}
	} else if overdue >= spaceStuck {
		return fmt.Errorf("statvfs of %s has not returned for %s: its disk or server may be dead", p.round.active.Load(), overdue.Round(time.Second))
	}
	if p.last == nil {
		return nil
	}
	if p.last.err == nil {
		p.fill(s)
	}
	return p.last.err
}

// Close does nothing: it does not wait for a file system that hangs.
func (p *Space) Close() error { return nil }

func (p *Space) start(boot int64) {
	p.round = &spaceRound{asked: boot, done: make(chan struct{})}
	p.round.active.Store("the list of mounts")
	go p.readAll(p.round)
}

func (p *Space) fill(s *rt.Snapshot) {
	s.Mounts = append(s.Mounts[:0], p.last.mounts...)
	if len(s.Mounts) == 0 {
		return // in a chroot no mount is visible: that is not a machine without space
	}
	var total, available uint64
	for i := range s.Mounts {
		total += s.Mounts[i].Total
		available += s.Mounts[i].Available
	}
	s.Node.SpaceTotal.Set(total)
	s.Node.SpaceAvailable.Set(available)
}

// readAll reads the space of all file systems.
func (p *Space) readAll(r *spaceRound) {
	defer close(r.done)
	defer recovery.Handle(func(err error) { r.err = fmt.Errorf("read the space of the file systems: %w", err) })
	b, err := os.ReadFile(p.info)
	r.err = err
	for _, m := range localMounts(procfile.ParseMountinfo(b)) {
		r.active.Store(m.Point)
		var st unix.Statfs_t
		if err := p.statfs(p.fs.Root+m.Point, &st); err != nil {
			continue // unmounted since, or not accessible: the others count
		}
		r.mounts = append(r.mounts, mountReading(&m, p.diskOf(&m), &st))
	}
}

// mountReading is the result of statvfs for a mount.
func mountReading(m *procfile.Mount, disk string, st *unix.Statfs_t) rt.MountReading {
	unit := uint64(st.Frsize)
	if st.Frsize <= 0 {
		unit = uint64(st.Bsize)
	}
	used := uint64(0)
	if st.Blocks > st.Bfree {
		used = (st.Blocks - st.Bfree) * unit
	}
	return rt.MountReading{
		Disk: disk, MountPoint: m.Point, FSType: m.FSType,
		Total: st.Blocks * unit, Available: st.Bavail * unit, Used: used,
	}
}

// diskOf is the kernel's name of the whole device below the mount; empty if there is none.
func (p *Space) diskOf(m *procfile.Mount) string {
	link := fmt.Sprintf("%s/dev/block/%d:%d", p.fs.Sys, m.Major, m.Minor)
	if m.Major == 0 {
		if !strings.HasPrefix(m.Source, "/dev/") {
			return ""
		}
		dev, err := filepath.EvalSymlinks(p.fs.Root + m.Source)
		if err != nil {
			return ""
		}
		link = p.fs.Sys + "/class/block/" + filepath.Base(dev)
	}
	dir, err := filepath.EvalSymlinks(link)
	if err != nil {
		return ""
	}
	var attr peek
	if _, err := attr.path(dir).str("/partition").read(); err == nil {
		dir = filepath.Dir(dir)
	}
	return filepath.Base(dir)
}

// localMounts selects the file systems on this node's own block devices, each once, at its
// first mount point. It leaves out hidden mounts and images (loop devices). It also leaves
// out file systems that depend on a network or on a user's process: their statvfs can hang.
// A root that is an overlay, as in a container, counts if there is nothing else: it is the
// only view of its disk.
func localMounts(all []procfile.Mount) []procfile.Mount {
	var out []procfile.Mount
	seen := map[any]bool{}
	for i, m := range all {
		device, ok := deviceOf(&m)
		if !ok || seen[device] || hidden(m, all[i+1:]) {
			continue
		}
		seen[device] = true
		out = append(out, m)
	}
	if len(out) > 0 {
		return out
	}
	for i, m := range all {
		if m.Point == "/" && m.FSType == "overlay" && !hidden(m, all[i+1:]) {
			return []procfile.Mount{m}
		}
	}
	return nil
}

// deviceOf identifies the device of a mount: it is equal for two mounts of the same space.
// ok is false without a local block device.
func deviceOf(m *procfile.Mount) (device any, ok bool) {
	const loop = 7 // Documentation/admin-guide/devices.txt
	switch m.FSType {
	case "btrfs", "bcachefs": // each subvolume has an anonymous device
		return m.Source, strings.HasPrefix(m.Source, "/dev/") && !strings.HasPrefix(m.Source, "/dev/loop")
	case "zfs": // the datasets share the space of their pool
		pool, _, _ := strings.Cut(m.Source, "/")
		return "zfs " + pool, pool != ""
	case "fuseblk":
		return nil, false
	}
	return [2]uint64{m.Major, m.Minor}, m.Major != 0 && m.Major != loop
}

func hidden(m procfile.Mount, later []procfile.Mount) bool {
	return slices.ContainsFunc(later, func(l procfile.Mount) bool { return l.Point == m.Point })
}
