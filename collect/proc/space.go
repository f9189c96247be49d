package proc

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const (
	spaceEvery     = 10 * time.Second      // between two looks at the file systems
	spaceFirstWait = 50 * time.Millisecond // what the first reading waits for its figures
	spaceStuck     = 30 * time.Second      // after which the figures are no longer true
)

// theList stands for a mount point while the mounts themselves are being read.
const theList = "the list of mounts"

// Space asks the local file systems how full they are, with statvfs(3). One that
// hangs must not hold up a reading, so the asking is done beside it, about every
// ten seconds, and a reading takes the answers of the last time. Once an answer
// is half a minute overdue, the figures are absent.
type Space struct {
	fs     FS
	statfs func(path string, buf *unix.Statfs_t) error

	wake chan struct{}
	done chan struct{} // closed when the first answers are there

	mu     sync.Mutex
	mounts []rt.MountReading // the last answers
	err    error             // why there are none
	asking string            // the mount point that is being asked
	asked  int64             // Boot time of the reading that last had them asked

	waited bool
	local  []procfile.Mount // the worker's own
	info   []byte           // mountinfo as last parsed
	next   []rt.MountReading
	file   file
}

// NewSpace returns the source of Snapshot.Mounts and of the node's sums of space.
// Close ends its worker.
func NewSpace(fs FS) *Space {
	self := "/self/mountinfo"
	if fs.Proc != "/proc" {
		self = "/1/mountinfo" // the self of another root is nobody there
	}
	return &Space{fs: fs, statfs: unix.Statfs, file: file{path: fs.Proc + self}}
}

// Name is what the ledger calls the source.
func (p *Space) Name() string { return "space" }

// Close tells the worker to end. It does not wait for a file system that hangs.
func (p *Space) Close() error {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
	return nil
}

// Read fills s.Mounts and the sums of s.Node with the last answers, and has the
// file systems asked again where those are ten seconds old.
func (p *Space) Read(s *rt.Snapshot) error {
	if p.wake == nil {
		p.wake, p.done = make(chan struct{}, 1), make(chan struct{})
		p.asked, p.asking = s.Boot, theList
		p.wake <- struct{}{}
		go p.work(p.wake, p.done)
	}
	if !p.waited {
		p.waited = true
		limit := time.NewTimer(spaceFirstWait)
		select {
		case <-p.done:
		case <-limit.C:
		}
		limit.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	overdue := time.Duration(s.Boot - p.asked)
	if p.asking == "" && overdue >= spaceEvery {
		p.asked, p.asking = s.Boot, theList
		p.wake <- struct{}{} // has room: the worker took the last one before it answered
	} else if p.asking != "" && overdue >= spaceStuck {
		return fmt.Errorf("statvfs of %s has not returned for %s: its disk or server may be dead", p.asking, overdue.Round(time.Second))
	}
	if p.err != nil {
		return p.err
	}
	p.fill(s)
	return nil
}

func (p *Space) fill(s *rt.Snapshot) {
	select {
	case <-p.done:
	default:
		return // no answers yet
	}
	s.Mounts = append(s.Mounts[:0], p.mounts...)
	if len(s.Mounts) == 0 {
		return // below a chroot no mount is seen: that is not a machine without space
	}
	var total, available uint64
	for i := range s.Mounts {
		total += s.Mounts[i].Total
		available += s.Mounts[i].Available
	}
	s.Node.SpaceTotal.Set(total)
	s.Node.SpaceAvailable.Set(available)
}

// work asks the file systems each time it is woken.
func (p *Space) work(wake <-chan struct{}, done chan<- struct{}) {
	defer func() { _ = recover() }() // ask has its own; without answers the figures become absent, with an error
	defer p.file.close()             // opened for reading: nothing can be lost
	for first := true; ; first = false {
		if _, ok := <-wake; !ok {
			return
		}
		err := p.ask()
		p.mu.Lock()
		p.mounts, p.next = p.next, p.mounts
		p.err, p.asking = err, ""
		if first {
			close(done)
		}
		p.mu.Unlock()
	}
}

// ask collects the answers of all file systems in p.next.
func (p *Space) ask() (err error) {
	defer func() {
		if r := recover(); r != nil { // the recorder guards its own goroutine only
			err = fmt.Errorf("asking the file systems for their space: %v", r)
		}
	}()
	p.next = p.next[:0]
	b, err := p.file.read()
	if err != nil {
		return err
	}
	if !bytes.Equal(b, p.info) {
		p.info = append(p.info[:0], b...)
		p.local = localMounts(procfile.ParseMountinfo(b))
		for i := range p.local {
			p.local[i].Source = p.diskOf(&p.local[i]) // all that is needed of it from here on
		}
	}
	for i := range p.local {
		m := &p.local[i]
		p.mu.Lock()
		p.asking = m.Point
		p.mu.Unlock()
		var st unix.Statfs_t
		if err := p.statfs(p.fs.Root+m.Point, &st); err != nil {
			continue // unmounted since, or not for us: the others count
		}
		p.next = append(p.next, mountReading(m, &st))
	}
	return nil
}

// mountReading is what statvfs said of the mount; Source is the disk's name by now.
func mountReading(m *procfile.Mount, st *unix.Statfs_t) rt.MountReading {
	unit := uint64(st.Frsize)
	if st.Frsize <= 0 {
		unit = uint64(st.Bsize)
	}
	used := uint64(0)
	if st.Blocks > st.Bfree {
		used = (st.Blocks - st.Bfree) * unit
	}
	return rt.MountReading{
		Disk: m.Source, MountPoint: m.Point, FSType: m.FSType,
		Total: st.Blocks * unit, Available: st.Bavail * unit, Used: used,
	}
}

// diskOf is the kernel's name of the whole device below the mount, empty where
// there is none: that of its partition's parent.
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
