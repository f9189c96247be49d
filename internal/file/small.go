package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// SmallLimit is for files that people write, in bytes.
const SmallLimit = 1 << 20

// null is the number of /dev/null, which counts as an empty file.
const null = 1<<8 | 3

// ErrRefused means that a file is not read: it is not a regular file, or too large.
var ErrRefused = errors.New("not a small regular file")

// ReadSmall returns the content of the regular file at path, of at most limit bytes. It refuses devices, FIFOs and
// very large files, which would block a hook or fill its memory. Errors name the file.
func ReadSmall(path string, limit int64) ([]byte, error) {
	data, _, err := ReadSmallInfo(path, limit)
	return data, err
}

// ReadSmallInfo is ReadSmall, and also returns the attributes of the file that was read.
func ReadSmallInfo(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && st.Mode()&fs.ModeCharDevice != 0 && sys.Rdev == null {
		return nil, st, nil // as --config /dev/null
	}
	if !st.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("read %s: %w: it is a %s", path, ErrRefused, kind(st.Mode()))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("read %s: %w: it has more than %d bytes", path, ErrRefused, limit)
	}
	if err != nil {
		return nil, nil, err
	}
	return data, st, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
