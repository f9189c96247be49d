package spool

import (
	"fmt"
	"syscall"
)

// Space is the disk space of a spool directory, in bytes.
type Space struct {
	Used  int64 // by the files of the directory
	Limit int64 // above it runs are thinned; 0: no limit
	Size  int64 // of the file system
	Free  int64 // of the file system, for users other than root
}

// ReadSpace returns the space of a directory with a quota, which may be 0 for none.
func ReadSpace(dir string, quota int64) (s Space, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return s, fmt.Errorf("read the space of the spool: statfs %s: %w", dir, err)
	}
	s.Size, s.Free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	if quota > 0 {
		s.Limit, err = nodeBound(dir, quota)
		if err != nil {
			return s, err
		}
	}
	s.Used, err = dirUsage(dir)
	if err != nil {
		return s, fmt.Errorf("read the space of the spool: %w", err)
	}
	return s, nil
}
