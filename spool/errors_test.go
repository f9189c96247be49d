package spool

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// A file that may not be read is distinguished from a damaged one. (Root may read all files, so
// that a real file cannot show it.)
func TestDescribePermission(t *testing.T) {
	err := describe("a.db", sqlite3.Error{Code: sqlite3.ErrCantOpen, SystemErrno: syscall.EACCES})
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrDamaged) || err.Error() != "open the spool file a.db: permission denied" {
		t.Errorf("%v", err)
	}
	err = describe("a.db", sqlite3.Error{Code: sqlite3.ErrCantOpen, SystemErrno: syscall.EMFILE})
	if errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v", err)
	}
}
