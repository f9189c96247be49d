package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is a file that is held open and read again from its start. It opens
// itself when it is first read, and again after an error.
type file struct {
	path string
	fd   int // of an open file; meaningless where open is false
	open bool
	buf  []byte
}

func newFile(path string) file { return file{path: path} }

// read returns the whole file. The bytes are good until the next call.
//
// The kernel hands some files over a page or a record at a time whatever the size
// of the buffer, so only a read of nothing is the end.
func (f *file) read() ([]byte, error) {
	if !f.open {
		fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
		}
		f.fd, f.open = fd, true
	}
	if f.buf == nil {
		f.buf = make([]byte, 8192)
	}
	for n := 0; ; {
		if n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
		k, err := unix.Pread(f.fd, f.buf[n:], int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			f.close()
			return nil, &fs.PathError{Op: "read", Path: f.path, Err: err}
		case k == 0:
			return f.buf[:n], nil
		default:
			n += k
		}
	}
}

func (f *file) close() error {
	if !f.open {
		return nil
	}
	f.open = false
	if err := unix.Close(f.fd); err != nil {
		return &fs.PathError{Op: "close", Path: f.path, Err: err}
	}
	return nil
}

// peek reads short files that are not held open: attributes of devices, the stat
// of a process. It keeps its buffers, so that it allocates nothing. A path is
// built up, then read: p.path(root).num(pid).str("/stat").read().
type peek struct {
	name, buf []byte
}

// path begins a path.
func (p *peek) path(root string) *peek {
	p.name = append(p.name[:0], root...)
	return p
}

// str appends s as it is.
func (p *peek) str(s string) *peek {
	p.name = append(p.name, s...)
	return p
}

// num appends a slash and n.
func (p *peek) num(n int) *peek {
	p.name = strconv.AppendInt(append(p.name, '/'), int64(n), 10)
	return p
}

// digits appends n.
func (p *peek) digits(n int) *peek {
	p.name = strconv.AppendInt(p.name, int64(n), 10)
	return p
}

// read returns the file's text without blanks at its ends. The bytes are good
// until the next call.
func (p *peek) read() ([]byte, error) {
	fd, err := p.open(unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) // opened for reading: nothing can be lost
	if p.buf == nil {
		p.buf = make([]byte, 4096)
	}
	for n := 0; ; {
		if n == len(p.buf) {
			p.buf = append(p.buf, make([]byte, len(p.buf))...)
		}
		k, err := unix.Read(fd, p.buf[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case k == 0:
			return trim(p.buf[:n]), nil
		default:
			n += k
		}
	}
}

// again reads a file of a process that is held open, which the kernel gives whole
// in one read where the buffer is large enough.
func (p *peek) again(fd int) ([]byte, error) {
	if p.buf == nil {
		p.buf = make([]byte, 4096)
	}
	for {
		n, err := unix.Pread(fd, p.buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n < len(p.buf):
			return p.buf[:n], nil
		default:
			p.buf = append(p.buf, make([]byte, len(p.buf))...)
		}
	}
}

// link returns the last element of what the symbolic link at the path points to.
func (p *peek) link() ([]byte, error) {
	if p.buf == nil {
		p.buf = make([]byte, 4096)
	}
	p.name = append(p.name, 0)
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, cwd(), uintptr(unsafe.Pointer(&p.name[0])),
		uintptr(unsafe.Pointer(&p.buf[0])), uintptr(len(p.buf)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	target := p.buf[:n]
	return target[bytes.LastIndexByte(target, '/')+1:], nil
}

// open is open(2) without the copy of the path that unix.Open makes.
func (p *peek) open(flags int) (int, error) {
	p.name = append(p.name, 0)
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, cwd(), uintptr(unsafe.Pointer(&p.name[0])),
			uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

func cwd() uintptr {
	fd := unix.AT_FDCWD
	return uintptr(fd)
}

// keep returns the bytes as a string: old where it is the same text, so that a
// refresh that changes nothing allocates nothing.
func keep(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return strings.ToValidUTF8(string(b), "�")
}
