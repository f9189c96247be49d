package logging

import (
	"fmt"
	"os"
	"syscall"
)

// OpenFile opens a log file for appending and creates it if it is missing. It
// accepts only regular files and /dev/null: the writer of a FIFO or a terminal would wait
// for a reader. It follows no link: root that logs into a user's directory would write to
// any file to which that user links.
func OpenFile(path string) (*os.File, error) {
	if path == "" {
		return nil, os.ErrNotExist
	}
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_NOCTTY
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !isNull(info) {
		err = fmt.Errorf("%s is neither a regular file nor %s: no log goes there", path, os.DevNull)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isNull reports whether a file is the null device, under any name.
func isNull(info os.FileInfo) bool {
	const null = 1<<8 | 3 // device 1:3, see null(4)
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&os.ModeCharDevice != 0 && stat.Rdev == null
}

// appendLine appends a line in one write, so that lines of several programs do not mix.
func appendLine(path, line string) error {
	f, err := OpenFile(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
