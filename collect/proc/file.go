package proc

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// file is a file that is held open. It opens itself when it is first read, and again
// after an error.
type file struct {
	path string
	open procfile.File
	buf  procfile.Buffer
}

// read returns the whole file. The bytes are good until the next call.
func (f *file) read() ([]byte, error) {
	if err := f.open.Open(f.path); err != nil {
		return nil, err
	}
	b, err := f.buf.ReadAll(&f.open)
	if err != nil {
		_ = f.open.Close() // the reading has failed already
		return nil, &fs.PathError{Op: "read", Path: f.path, Err: err}
	}
	return b, nil
}

func (f *file) close() error {
	if err := f.open.Close(); err != nil {
		return &fs.PathError{Op: "close", Path: f.path, Err: err}
	}
	return nil
}

// peek reads short files that are not held open: attributes of devices, the stat
// of a process. It keeps its buffers, so that it allocates nothing. A path is
// built up, then read: p.path(root).num(pid).str("/stat").read().
type peek struct {
	name []byte
	buf  procfile.Buffer
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
func (p *peek) num(n int) *peek { return p.str("/").digits(n) }

// digits appends n.
func (p *peek) digits(n int) *peek {
	p.name = strconv.AppendInt(p.name, int64(n), 10)
	return p
}

// open opens the file at the path.
func (p *peek) open(flags int) (f procfile.File, err error) {
	p.name = append(p.name, 0)
	err = f.OpenBytes(p.name, flags)
	return f, err
}

// read returns the file's text without blanks at its ends. The bytes are good
// until the next call.
func (p *peek) read() ([]byte, error) {
	f, err := p.open(0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading: nothing can be lost
	b, err := p.buf.ReadAll(&f)
	return procfile.Trim(b), err
}

// stat reads /proc/<pid>/stat. Its Comm is good until the next call.
func (p *peek) stat(root string, pid int) (procfile.Stat, error) {
	b, err := p.path(root).num(pid).str("/stat").read()
	if err != nil {
		return procfile.Stat{}, err
	}
	return parsePidStat(b)
}

// link returns the last element of what the symbolic link at the path points to.
func (p *peek) link() ([]byte, error) {
	buf, cwd := p.buf.Bytes(), unix.AT_FDCWD
	p.name = append(p.name, 0)
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(cwd), uintptr(unsafe.Pointer(&p.name[0])),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	target := buf[:n]
	return target[bytes.LastIndexByte(target, '/')+1:], nil
}

// keep returns the bytes as a string: old where it is the same text, so that a
// refresh that changes nothing allocates nothing.
func keep(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
