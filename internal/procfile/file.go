package procfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// maxFile bounds what Buffer.Read reads of one file, in bytes.
const maxFile = 4 << 20

// File is a file that is held open and read again from its start. The zero value
// is closed.
type File struct {
	fd      int32
	open    bool
	retired bool
}

// Open opens the file for reading, unless it is open or retired. The error is a
// *fs.PathError.
func (f *File) Open(path string) error {
	if f.open || f.retired {
		return nil
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f.fd, f.open = int32(fd), true
	return nil
}

// OpenBytes is Open for a path that ends in a zero byte. It allocates nothing, and
// its error is a bare syscall.Errno. flags are added to O_RDONLY and O_CLOEXEC.
func (f *File) OpenBytes(path []byte, flags int) error {
	if f.open || f.retired {
		return nil
	}
	cwd := -100 // AT_FDCWD of fcntl.h
	for {
		fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&path[0])),
			uintptr(flags|syscall.O_RDONLY|syscall.O_CLOEXEC), 0, 0, 0)
		switch errno {
		case 0:
			f.fd, f.open = int32(fd), true
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}

// IsOpen reports whether the file is open.
func (f *File) IsOpen() bool { return f.open }

// Fd returns the descriptor of an open file, else -1.
func (f *File) Fd() int {
	if !f.open {
		return -1
	}
	return int(f.fd)
}

// Close closes the file. It can be opened again, unless it is retired.
func (f *File) Close() error {
	if !f.open {
		return nil
	}
	f.open = false
	return syscall.Close(int(f.fd))
}

// Retire closes the file for good, because its directory was removed: Open does nothing
// from then on.
func (f *File) Retire() {
	_ = f.Close() // opened for reading: nothing can be lost
	f.retired = true
}

// Retired reports whether the file was retired.
func (f *File) Retired() bool { return f.retired }

// Pread reads once at the offset off, see pread(2).
func (f *File) Pread(b []byte, off int64) (int, error) {
	if !f.open {
		return 0, syscall.EBADF
	}
	for {
		n, err := syscall.Pread(int(f.fd), b, off)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// Buffer is what files are read into, one after another. It grows to the largest.
type Buffer []byte

// Bytes returns the buffer, of at least 4 KiB.
func (b *Buffer) Bytes() []byte {
	if len(*b) == 0 {
		*b = make([]byte, 4<<10)
	}
	return *b
}

// Read returns what f holds, until the next call. It is for a file that the kernel returns whole in one read:
// /proc/<pid>/stat, an attribute of sysfs, the counters of a cgroup.
func (b *Buffer) Read(f *File) ([]byte, error) {
	for {
		buf := b.Bytes()
		n, err := f.Pread(buf, 0)
		if err != nil {
			return nil, err
		}
		if n < len(buf) || len(buf) >= maxFile {
			return buf[:n], nil
		}
		*b = make([]byte, 2*len(buf))
	}
}

// ReadAll is Read for a file that the kernel returns a page or a record at a time, whatever the size of the buffer.
func (b *Buffer) ReadAll(f *File) ([]byte, error) {
	for n := 0; ; {
		buf := b.Bytes()
		if n == len(buf) {
			*b = append(buf, make([]byte, len(buf))...)
			continue
		}
		k, err := f.Pread(buf[n:], int64(n))
		if err != nil {
			return nil, err
		}
		if k == 0 {
			return buf[:n], nil
		}
		n += k
	}
}

// Text returns the content of the file with these elements of a path, without blanks at its
// ends; empty if it cannot be read. Bytes that are no UTF-8 are left out. It is for files
// that are read once.
func Text(path ...string) string {
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(b)), "")
}
