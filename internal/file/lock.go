package file

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Lock is the lock of one process on a file. The file exists only while a process has the lock.
type Lock struct{ file *os.File }

// TryLock makes and locks the file at path, without waiting. It returns nil without an error if
// another process has the lock.
func TryLock(path string) (*Lock, error) {
	for range 10 { // a process that releases the lock removes the file
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isNamed(f, path) {
			return &Lock{f}, nil
		}
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		if err != nil {
			return nil, &fs.PathError{Op: "flock", Path: path, Err: err}
		}
	}
	return nil, nil
}

// Release removes the file and releases the lock.
func (l *Lock) Release() error {
	err := os.Remove(l.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

// isNamed reports whether path is still the name of the open file.
func isNamed(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}
