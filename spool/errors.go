package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Errors of spool files and directories. They are wrapped in an error that names the file
// and says what to do.
var (
	ErrDamaged    = errors.New("damaged spool file")
	ErrForeign    = errors.New("not a spool file")
	ErrNewer      = errors.New("spool file of a newer version")
	ErrOld        = errors.New("spool file of an older version")
	ErrIO         = errors.New("the disk could not be read or written")
	ErrExists     = errors.New("the run is already spooled")
	ErrLocked     = errors.New("locked by another process")
	ErrBusy       = errors.New("another process has the file open and keeps it from being changed")
	ErrLive       = errors.New("the run's tracker is alive")
	ErrNetworkFS  = errors.New("network file system")
	ErrReadOnly   = errors.New("spool file opened read-only")
	ErrNotFound   = errors.New("no such job")
	ErrOutOfOrder = errors.New("batch out of order")
	ErrClosed     = errors.New("spool file is closed")
	// ErrLimit means that a file needs more time or memory than a run's file can need.
	ErrLimit = errors.New("spool file beyond the limits of reading")
	// ErrUndelivered means that a file has the mark of a delivered run, but its run is not
	// delivered. Such a file must not be removed.
	ErrUndelivered = errors.New("the run is not delivered, though its file was marked so")
)

// busy reports whether err means that another process has the database locked.
func busy(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked
}

// describe explains an error of SQLite for the file at path. It returns other errors unchanged.
func describe(path string, err error) error {
	var e sqlite3.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case sqlite3.ErrNotADB:
		return fmt.Errorf("%s: %w: it does not begin as an SQLite database (%w)", path, ErrForeign, err)
	case sqlite3.ErrCorrupt, sqlite3.ErrFormat, sqlite3.ErrError: // ErrError: a table or column is missing
		return damaged(path, err)
	case sqlite3.ErrIoErr:
		return readFailure(path, err)
	case sqlite3.ErrTooBig, sqlite3.ErrNomem:
		return fmt.Errorf("%s: %w (%w); move it away", path, ErrLimit, err)
	}
	if errors.Is(e.SystemErrno, syscall.EIO) {
		return readFailure(path, err)
	}
	if e.Code == sqlite3.ErrCantOpen && errors.Is(e.SystemErrno, fs.ErrPermission) {
		return denied(path, e.SystemErrno)
	}
	if e.ExtendedCode == sqlite3.ErrReadonlyRollback {
		return fmt.Errorf("%s: %w: it is being written, or its writer died in the middle of a change (%w); the next drain, or rt-spool verify as the spool's owner, completes it", path, ErrBusy, err)
	}
	if busy(err) {
		return &busyError{path, err}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// denied explains why a file may not be read. For the owner of the directory the file is intact, but belongs to another user.
func denied(path string, cause error) error {
	dir, dirErr := os.Stat(filepath.Dir(path))
	st, err := os.Lstat(path)
	if dirErr != nil || err != nil || userOf(dir) != os.Geteuid() || userOf(st) == os.Geteuid() {
		return fmt.Errorf("open the spool file %s: %w", path, cause)
	}
	return &intactError{path, fs.ErrPermission, fmt.Errorf("it belongs to uid %d, and the directory to this user: as root, chown --reference=%s %s*", userOf(st), filepath.Dir(path), path)}
}

func userOf(st fs.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }

// refused explains an error that occurred while the content of the file at path was read. An
// error of an unknown kind means that the content is damaged.
func refused(path string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("read %s: %w", path, err)
	case errors.Is(err, syscall.EIO):
		return readFailure(path, err)
	case errors.Is(err, ErrForeign), errors.Is(err, ErrLimit):
		return fmt.Errorf("%s: %w; move it away", path, err)
	}
	if errors.As(err, new(sqlite3.Error)) {
		return describe(path, err)
	}
	return damaged(path, err)
}

// busyError is the error for a file that another process has locked, for example sqlite3(1)
// during a query. The operation can be tried again later.
type busyError struct {
	path string
	err  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("%s: %v (%v); try again when it is closed, fuser %s names it", e.path, ErrBusy, e.err, e.path)
}
func (e *busyError) Unwrap() []error { return []error{ErrBusy, e.err} }

// intactError is the error of a file that this program cannot read, though its content can be good.
type intactError struct {
	path string
	kind error // ErrOld, ErrNewer, ErrIO or fs.ErrPermission
	err  error
}

func (e *intactError) Error() string   { return fmt.Sprintf("%s: %v: %v", e.path, e.kind, e.err) }
func (e *intactError) Unwrap() []error { return []error{e.kind, e.err} }

// IsIntact reports whether err is about a file of another version, or a disk that fails. A file of another user in a
// directory of this user counts too. Such a file is not known to be damaged.
func IsIntact(err error) bool { return errors.As(err, new(*intactError)) }

// readFailure returns the error for a file on a disk that fails.
func readFailure(path string, err error) error {
	return &intactError{path, ErrIO, fmt.Errorf("%w; dmesg has the errors of the disk, and the file is tried again", err)}
}

// damaged returns the error for a file with invalid content.
func damaged(path string, cause error) error {
	return fmt.Errorf("%s: %w: %w; move it away, the other runs are not affected", path, ErrDamaged, cause)
}
