package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// SQLite needs locks to open a database with a write-ahead log. They are in the -shm file, which a
// user who may only read the run cannot open. With a lock there a user could stop the tracker. For
// such a user the Reader copies the database and its log without a lock, and opens the copy.

// maxCopy bounds the bytes of a copy. It is larger than any reasonable quota of a run.
const maxCopy = 1 << 30

// copyAtMost is the maximum number of attempts to copy while the tracker restarts its log.
const copyAtMost = 5

// errRestarted means that the tracker restarted the log during each copy, so that no copy is
// consistent.
var errRestarted = errors.New("its log restarted during each copy: try again")

// logHeader is the size of the header of a log. It changes when the log restarts.
const logHeader = 32

// openCopy opens a copy of the run at path. SQLite keeps the files of the copy open, so their
// names are removed at once.
func openCopy(path string, st fs.FileInfo, params url.Values) (*Reader, error) {
	dir, err := os.MkdirTemp("", "rt-spool-")
	if err != nil {
		return nil, fmt.Errorf("copy %s to read it: %w", path, err)
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "run"+dbSuffix)
	isWhole := false
	for n := 0; n < copyAtMost && !isWhole && err == nil; n++ {
		isWhole, err = copyRun(path, to, st)
	}
	if err == nil && !isWhole {
		err = errRestarted
	}
	if err != nil {
		return nil, fmt.Errorf("copy %s to read it: %w", path, err)
	}
	params.Set("mode", "rw")
	r, err := newReader(path, to, st, params)
	if err != nil {
		return nil, err
	}
	r.readOnly = true
	return r, nil
}

// copyRun copies the database at path and its log. isWhole reports whether the copy is consistent.
// During the copy a checkpoint may write to the database. Each page that it writes remains in the
// log until the log restarts, and a restart changes the log's header.
func copyRun(path, to string, st fs.FileInfo) (isWhole bool, err error) {
	log, err := openFile(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("the run has just ended: try again (%w)", err)
	}
	if err != nil {
		return false, err
	}
	defer log.Close()
	db, err := openFile(path)
	if err != nil {
		return false, err
	}
	defer db.Close()
	opened, err := db.Stat()
	if err != nil || !os.SameFile(st, opened) {
		return false, errors.Join(fmt.Errorf("%w: it was replaced while it was opened", ErrForeign), err)
	}
	before, err := headerOf(log)
	if err == nil {
		err = copyFile(to, db)
	}
	if err == nil {
		err = copyFile(to+"-wal", log)
	}
	if err != nil {
		return false, err
	}
	after, err := headerOf(log)
	if err != nil {
		return false, err
	}
	copied, err := db.Stat()
	// A writer over its quota empties the log after each commit. Then there is no header to
	// compare, and the database must be unchanged.
	isUnchanged := err == nil && copied.Size() == opened.Size() && copied.ModTime().Equal(opened.ModTime())
	isOneMoment := len(after) == logHeader || isUnchanged
	isSame := bytes.Equal(before, after) && exists(path+"-wal")
	return isSame && isOneMoment, err
}

// openFile opens a regular file. Closing a file drops all locks of this process on it. That does no
// harm here, because SQLite has only the copy open.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: it is a %s", path, ErrForeign, kindOf(st.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// headerOf returns the header of a log, or nothing if the log is empty.
func headerOf(log *os.File) ([]byte, error) {
	head := make([]byte, logHeader)
	n, err := log.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}

func copyFile(to string, from *os.File) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = from.Seek(0, io.SeekStart)
	if err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(from, maxCopy))
		if n == maxCopy {
			err = ErrLimit
		}
	}
	return errors.Join(err, f.Close())
}
