package spool

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// deliveredAttribute is an extended attribute of the file of a run that was delivered:
// when that was, in microseconds, and the file's time of change then, in nanoseconds. To
// open a database costs a hundred times what this does, and a node may keep thousands.
const deliveredAttribute = "user.rt.delivered"

// settled is how old a file's last change must be before it is marked: the kernel's clock
// for it moves in steps, of 10 ms at most, on some file systems of 2 s. A change in the
// same step as the last would not be seen.
const settled = 2 * time.Second

// markable says whether what is read of a file from now on may be put into its mark; st
// was taken just now.
func markable(st fs.FileInfo) bool {
	return st.Mode().IsRegular() && time.Since(st.ModTime()) >= settled
}

// markDelivered sets it; st is from before the time of delivery was read, so that a change
// since then makes the mark void. Where setting fails, on a file system without such
// attributes say, the file is opened each time.
func markDelivered(path string, st fs.FileInfo, at time.Time) {
	_ = lsetxattr(path, deliveredAttribute, fmt.Appendf(nil, "%d %d", at.UnixMicro(), st.ModTime().UnixNano()))
}

// unmark makes a mark void that was found to be wrong.
func unmark(path string) error { return lsetxattr(path, deliveredAttribute, []byte("0 0")) }

// peek returns what Walk shows of a run that was delivered and has not changed since,
// without opening its file; false where it must be opened.
func peek(path string) (*Entry, bool) {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() || trusted(path, st) != nil || exists(path+"-wal") {
		return nil, false
	}
	at, ok := markOf(path, st)
	if !ok {
		return nil, false
	}
	return &Entry{Path: path, Size: st.Size(), Run: rt.Run{Ending: rt.Ending{State: rt.StateDelivered}}, DeliveredAt: at}, true
}

func markOf(path string, st fs.FileInfo) (at time.Time, ok bool) {
	var text [64]byte
	n, err := syscall.Getxattr(path, deliveredAttribute, text[:])
	if err != nil {
		return at, false
	}
	var delivered, changed int64
	if _, err := fmt.Sscanf(string(text[:n]), "%d %d", &delivered, &changed); err != nil || changed != st.ModTime().UnixNano() {
		return at, false
	}
	return time.UnixMicro(delivered).UTC(), true
}
