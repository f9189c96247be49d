package cgroup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dirMask  = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	fileMask = unix.IN_MODIFY
)

// notifier is an inotify instance that knows its watches by path. Only one
// goroutine uses it at a time; wake may be called by any and ends a wait. It waits
// in poll(2) itself, on the thread of its goroutine: that one has to be on time,
// whatever priority the program's other threads have.
//
// That a watched cgroup directory itself is removed is not reported by all
// kernels: it is learned from its parent, and the watch taken away by hand.
type notifier struct {
	fds   [3]unix.PollFd // of a wait, here so that it allocates nothing
	count [8]byte        // of the eventfd

	fd     int   // inotify; -1 where it is not to be had
	off    error // why not
	woken  int   // eventfd: somebody wants the wait to end
	byWD   map[int32]string
	byPath map[string]int32
	moved  bool // a path was made anew or vanished between two looks: look again
	buf    []byte
}

// notice is one event: something happened to the entry name of the directory dir,
// or to the watched file dir.
type notice struct {
	wd        int32
	dir, name string
	mask      uint32
}

func (n notice) removed() bool {
	return n.mask&unix.IN_ISDIR != 0 && n.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0
}

func (n notice) created() bool {
	return n.mask&unix.IN_ISDIR != 0 && n.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0
}

func (n notice) modified() bool { return n.mask&unix.IN_MODIFY != 0 }
func (n notice) ignored() bool  { return n.mask&unix.IN_IGNORED != 0 }
func (n notice) overflow() bool { return n.mask&unix.IN_Q_OVERFLOW != 0 }

// stale says whether the watch that told of x was taken away since: the path may
// be another directory's by now.
func (n *notifier) stale(x notice) bool {
	_, known := n.byWD[x.wd]
	return !known && !x.overflow()
}

// forget takes note that the kernel took a watch away with its directory. Its path
// stays known, so that another directory of that path is told from it.
func (n *notifier) forget(x notice) { delete(n.byWD, x.wd) }

func newNotifier() (*notifier, error) {
	return notifierOf(unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK))
}

// notifierOf is newNotifier with what inotify_init1 has said. A user has 128 instances
// where nobody has changed that, and a node may have more jobs: their trackers do without.
func notifierOf(fd int, err error) (*notifier, error) {
	var off error
	if err != nil {
		fd, off = -1, fmt.Errorf("inotify_init1: %w; see fs.inotify.max_user_instances", err)
	}
	woken, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		err = fmt.Errorf("watch for the job's cgroup: eventfd: %w", err)
		if off == nil {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, err
	}
	return &notifier{
		fd: fd, off: off, woken: woken,
		byWD: map[int32]string{}, byPath: map[string]int32{},
		buf: make([]byte, 16<<10),
	}, nil
}

// watch watches a directory or file. It is false where that does not exist.
func (n *notifier) watch(path string, mask uint32) (bool, error) {
	if _, ok := n.byPath[path]; ok && mask == fileMask {
		return true, nil
	}
	if n.off != nil {
		return false, fmt.Errorf("watch %s: %w", path, n.off)
	}
	wd, err := unix.InotifyAddWatch(n.fd, path, mask)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENODEV):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("watch %s: inotify_add_watch: %w; see fs.inotify.max_user_watches", path, err)
	}
	if old, ok := n.byPath[path]; ok && old != int32(wd) { // it was removed and made again
		n.unwatch(path)
		n.moved = true
	}
	n.byWD[int32(wd)], n.byPath[path] = path, int32(wd)
	return true, nil
}

// still says whether the directory is there and the one that had the watch wd: the
// kernel knows a watch by the directory, whatever has its path.
func (n *notifier) still(path string, wd int32) bool {
	ok, err := n.watch(path, dirMask)
	if err != nil && !errors.Is(err, unix.ENOSPC) { // that only a directory which has no watch yet is refused with
		return true
	}
	return ok && n.byPath[path] == wd
}

// unwatch takes the watch of one path away.
func (n *notifier) unwatch(path string) {
	wd, ok := n.byPath[path]
	if !ok {
		return
	}
	delete(n.byPath, path)
	delete(n.byWD, wd)
	_, _ = unix.InotifyRmWatch(n.fd, uint32(wd)) // EINVAL: it went with its directory
}

// errWoken is what wait returns after wake.
var errWoken = errors.New("woken")

// wait blocks until something happens and returns it, which is nothing where the
// other descriptor is ready; -1 is none. After the deadline it returns
// os.ErrDeadlineExceeded; the zero time is no deadline.
func (n *notifier) wait(deadline time.Time, other int) ([]notice, error) {
	n.fds = [...]unix.PollFd{{Fd: int32(n.fd), Events: unix.POLLIN}, {Fd: int32(n.woken), Events: unix.POLLIN}, {Fd: int32(other), Events: unix.POLLIN}}
	fds := n.fds[:]
	for {
		k, err := unix.Poll(fds, milliseconds(deadline))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, fmt.Errorf("wait for news of the job's cgroup: poll: %w", err)
		case k == 0:
			return nil, os.ErrDeadlineExceeded
		case fds[1].Revents != 0:
			return nil, errWoken
		case fds[0].Revents == 0:
			return nil, nil
		}
		size, err := unix.Read(n.fd, n.buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("wait for news of the job's cgroup: read: %w", err)
		}
		return n.parse(n.buf[:size]), nil
	}
}

// milliseconds is the time to the deadline for poll(2), rounded up; -1 for none.
func milliseconds(deadline time.Time) int {
	if deadline.IsZero() {
		return -1
	}
	return int(max(0, (time.Until(deadline)+time.Millisecond-1)/time.Millisecond))
}

// one is what an eventfd is told by.
var one = [8]byte{1, 0, 0, 0, 0, 0, 0, 0}

// rest takes back what wake has said.
func (n *notifier) rest() { _, _ = unix.Read(n.woken, n.count[:]) }

// wake ends a wait that is under way, or the next one, until rest.
func (n *notifier) wake() error {
	_, err := unix.Write(n.woken, one[:])
	return err
}

// parse decodes inotify(7) events: wd, mask, cookie, len, then a name of len bytes
// that zeros fill up. Those of watches that were taken away are left out.
func (n *notifier) parse(b []byte) []notice {
	var out []notice
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		size := uint64(binary.NativeEndian.Uint32(b[12:]))
		b = b[unix.SizeofInotifyEvent:]
		if size > uint64(len(b)) {
			break
		}
		name, _, _ := bytes.Cut(b[:size], []byte{0})
		b = b[size:]
		dir, known := n.byWD[wd]
		if known || mask&unix.IN_Q_OVERFLOW != 0 {
			out = append(out, notice{wd, dir, string(name), mask})
		}
	}
	return out
}

// close gives the descriptors back. Nobody may be waiting.
func (n *notifier) close() error {
	err := unix.Close(n.woken)
	if n.off == nil {
		err = errors.Join(err, unix.Close(n.fd))
	}
	return err
}
