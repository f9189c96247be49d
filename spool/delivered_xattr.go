package spool

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// deliveredAttribute is an extended attribute of the file of a delivered run. It has the time of
// delivery in microseconds, and the ctime of the file at that time in nanoseconds. Reading it costs
// a hundredth of opening a database, and a node can have thousands.
const deliveredAttribute = "user.rt.delivered"

// settled is the age of a file's last change from which the file can be marked. The timestamps of
// the kernel advance in steps of up to 10 ms, on some file systems of 2 s. A second change within
// one step would go unnoticed.
const settled = 2 * time.Second

// markable reports whether the file has not changed recently, so that a mark with st identifies the
// content that is read from now on. st must be current.
func markable(st fs.FileInfo) bool {
	return st.Mode().IsRegular() && time.Since(st.ModTime()) >= settled
}

// markDelivered sets the mark. st must have been read before the time of delivery, so that a
// later change invalidates the mark. If the file system has no such attributes, the file is
// opened each time.
func markDelivered(path string, st fs.FileInfo, at time.Time) {
	_ = lsetxattr(path, deliveredAttribute, fmt.Appendf(nil, "%d %d", at.UnixMicro(), st.ModTime().UnixNano()))
}

// unmark invalidates a wrong mark.
func unmark(path string) error { return lsetxattr(path, deliveredAttribute, []byte("0 0")) }

// peek returns the entry of a run that was delivered and has not changed since, without opening its
// file. It returns false if the file must be opened.
func peek(path string) (*Entry, bool) {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() || checkSource(path, st) != nil || exists(path+"-wal") {
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
