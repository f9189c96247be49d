package cgroup

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of one file.
const maxFile = 4 << 20

// file is one file of a cgroup, held open. The zero value is not open.
type file struct {
	fd   int
	open bool
	dead bool // its directory was removed: it never comes back
}

// tryOpen opens the file unless it is open or dead. That it does not exist (yet,
// or on this kernel) is no error.
func (f *file) tryOpen(path string) error {
	if f.open || f.dead {
		return nil
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		f.fd, f.open = fd, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
	default:
		return fmt.Errorf("open %s: %w; reading a job's cgroup takes root or CAP_DAC_READ_SEARCH", path, err)
	}
	return nil
}

// reopen opens the file anew by its path, which ends in a zero byte, and allocates
// nothing. It is dead where the path is gone.
func (f *file) reopen(path []byte) {
	dead := f.dead
	f.close()
	f.dead = dead
	if dead {
		return
	}
	at := unix.AT_FDCWD
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	switch e {
	case 0:
		f.fd, f.open = int(fd), true
	case unix.ENOENT, unix.ENODEV:
		f.dead = true
	}
}

// hold opens a directory without a right to read it: its inode number is nobody
// else's until it is closed.
func (f *file) hold(dir string) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	f.fd, f.open = fd, err == nil
}

// at says whether the directory that f holds is at path; where it could not be held,
// whether any is.
func (f *file) at(path string) bool {
	var now, held unix.Stat_t
	if err := unix.Stat(path, &now); err != nil {
		return false
	}
	if !f.open || unix.Fstat(f.fd, &held) != nil {
		return true
	}
	return now.Ino == held.Ino && now.Dev == held.Dev
}

func (f *file) close() {
	if f.open {
		_ = unix.Close(f.fd)
	}
	f.open, f.dead = false, true
}

// pread reads once at off. A file that was removed with its directory (ENODEV) is
// closed for good.
func (f *file) pread(b []byte, off int64) (int, bool) {
	if !f.open {
		return 0, false
	}
	for {
		n, err := unix.Pread(f.fd, b, off)
		switch {
		case err == nil:
			return n, true
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENODEV):
			f.close()
			return 0, false
		default: // EOPNOTSUPP and the like: nothing to be read of it now
			return 0, false
		}
	}
}

// scratch is the buffer that all files of a job are read into, one after another.
type scratch []byte

// ready makes the buffer, once.
func (s *scratch) ready() *scratch {
	if len(*s) == 0 {
		*s = make([]byte, 8<<10)
	}
	return s
}

// read returns what f holds now, until the next read; false where it could not be
// read. The kernel gives a file of counters whole in one read when the buffer is
// large enough, and it grows until it is.
func (s *scratch) read(f *file) ([]byte, bool) {
	s.ready()
	for {
		n, ok := f.pread(*s, 0)
		if !ok {
			return nil, false
		}
		if n < len(*s) || len(*s) >= maxFile {
			return (*s)[:n], true
		}
		*s = make([]byte, 2*len(*s))
	}
}

// number reads a file that holds one number.
func (s *scratch) number(f *file) (uint64, bool) {
	b, ok := s.read(f)
	if !ok {
		return 0, false
	}
	return parseUint(b)
}
