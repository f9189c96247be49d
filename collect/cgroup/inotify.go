package cgroup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dirMask  = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	fileMask = unix.IN_MODIFY
)

// notifier is an inotify instance that finds its watches by path. Only one goroutine at a
// time may use it, but any goroutine may call Wake, which ends a wait. notifier waits in
// poll(2) on the thread of its goroutine. This thread must run in time even if the
// program's other threads have a low priority.
//
// Some kernels do not report the removal of a watched cgroup directory itself. The watch of its
// parent reports it, and the notifier then removes the watch of the directory.
type notifier struct {
	fds   [3]unix.PollFd // of a wait, here so that it allocates nothing
	count [8]byte        // of the eventfd

	fd       int   // inotify; -1 if there is none
	off      error // the reason
	wakeFD   int   // eventfd that ends a wait
	byWD     map[int32]string
	byPath   map[string]int32
	replaced bool // a path was replaced or removed between two looks: look again
	buf      []byte
}

// notice is one event: something happened to the entry Name of the directory Dir, or to
// the watched file Dir.
type notice struct {
	WD        int32 // the watch
	Dir, Name string
	Mask      uint32 // see inotify(7)
}

// Path is the path of what the notice is about.
func (n notice) Path() string { return filepath.Join(n.Dir, n.Name) }

// Removed reports whether a directory was removed.
func (n notice) Removed() bool {
	return n.Mask&unix.IN_ISDIR != 0 && n.Mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0
}

// Created reports whether a directory was created.
func (n notice) Created() bool {
	return n.Mask&unix.IN_ISDIR != 0 && n.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0
}

// Modified reports whether a file was written to.
func (n notice) Modified() bool { return n.Mask&unix.IN_MODIFY != 0 }

// IsOf reports whether the watched file of this name was written to.
func (n notice) IsOf(file string) bool {
	return n.Modified() && n.Name == "" && filepath.Base(n.Dir) == file
}

// Ignored reports whether the kernel removed the watch with its directory.
func (n notice) Ignored() bool { return n.Mask&unix.IN_IGNORED != 0 }

// Overflow reports whether notices were lost.
func (n notice) Overflow() bool { return n.Mask&unix.IN_Q_OVERFLOW != 0 }

// IsStale reports whether the watch of x was removed in the meantime: another directory may have
// the path now.
func (n *notifier) IsStale(x notice) bool {
	_, known := n.byWD[x.WD]
	return !known && !x.Overflow()
}

// Forget records that the kernel removed a watch with its directory. Its path stays
// known, so that another directory of that path is distinguished from it.
func (n *notifier) Forget(x notice) { delete(n.byWD, x.WD) }

// newNotifier returns a notifier.
func newNotifier() (*notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return newPollingNotifier(err)
	}
	n, err := newPollingNotifier(nil)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	n.fd = fd
	return n, nil
}

// newPollingNotifier returns a notifier that only waits: its watches fail because inotify_init1
// failed. A user has 128 instances by default, and a node may have more
// jobs: the trackers beyond that poll.
func newPollingNotifier(reason error) (*notifier, error) {
	wakeFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch for the job's cgroup: eventfd: %w", err)
	}
	n := &notifier{fd: -1, wakeFD: wakeFD, byWD: map[int32]string{}, byPath: map[string]int32{}, buf: make([]byte, 16<<10)}
	if reason != nil {
		n.off = fmt.Errorf("inotify_init1: %w; see fs.inotify.max_user_instances", reason)
	}
	return n, nil
}

// WatchFile watches a file for writes. A file that does not exist is no error.
func (n *notifier) WatchFile(path string) error {
	_, err := n.watch(path, fileMask)
	return err
}

// watch watches a directory or file. It is false if that does not exist.
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
	if old, ok := n.byPath[path]; ok && old != int32(wd) { // it was replaced
		n.Unwatch(path)
		n.replaced = true
	}
	n.byWD[int32(wd)], n.byPath[path] = path, int32(wd)
	return true, nil
}

// isSame reports whether the directory at path had the watch wd: the kernel identifies a
// watch by the directory, not by its path.
func (n *notifier) isSame(path string, wd int32) bool {
	ok, err := n.watch(path, dirMask)
	if err != nil && !errors.Is(err, unix.ENOSPC) { // ENOSPC means that the directory has no watch yet
		return true
	}
	return ok && n.byPath[path] == wd
}

// Unwatch removes the watch of one path.
func (n *notifier) Unwatch(path string) {
	wd, ok := n.byPath[path]
	if !ok {
		return
	}
	delete(n.byPath, path)
	delete(n.byWD, wd)
	_, _ = unix.InotifyRmWatch(n.fd, uint32(wd)) // EINVAL: the kernel removed it with its directory
}

// errWoken is what Wait returns after Wake.
var errWoken = errors.New("woken")

// Wait blocks until something happens and returns it, which is nothing if the other
// descriptor is ready; -1 is none. After the deadline it returns
// os.ErrDeadlineExceeded; the zero time is no deadline.
func (n *notifier) Wait(deadline time.Time, other int) ([]notice, error) {
	n.fds = [...]unix.PollFd{{Fd: int32(n.fd), Events: unix.POLLIN}, {Fd: int32(n.wakeFD), Events: unix.POLLIN}, {Fd: int32(other), Events: unix.POLLIN}}
	fds := n.fds[:]
	for {
		k, err := unix.Ppoll(fds, untilDeadline(deadline), nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, fmt.Errorf("wait for events of the job's cgroup: poll: %w", err)
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
			return nil, fmt.Errorf("wait for events of the job's cgroup: read: %w", err)
		}
		return n.parse(n.buf[:size]), nil
	}
}

// untilDeadline is the time to the deadline; nil for no limit.
func untilDeadline(deadline time.Time) *unix.Timespec {
	if deadline.IsZero() {
		return nil
	}
	left := unix.NsecToTimespec(max(0, time.Until(deadline).Nanoseconds()))
	return &left
}

// one is the count that wakes an eventfd.
var one = [8]byte{1, 0, 0, 0, 0, 0, 0, 0}

// Rest ends the effect of Wake.
func (n *notifier) Rest() { _, _ = unix.Read(n.wakeFD, n.count[:]) }

// Wake ends a wait that is under way, or the next one, until Rest.
func (n *notifier) Wake() error {
	_, err := unix.Write(n.wakeFD, one[:])
	return err
}

// parse decodes inotify(7) events: wd, mask, cookie, len, then a name of len bytes
// that is padded with zeros. Events of removed watches are left out.
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

// Close closes the descriptors. No goroutine may be waiting.
func (n *notifier) Close() error {
	err := unix.Close(n.wakeFD)
	if n.fd >= 0 {
		err = errors.Join(err, unix.Close(n.fd))
	}
	return err
}
