package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// diskReserve is the most space in bytes that Writers leave free on the file system, see reserve. To thin its file a Writer
// needs up to logReserve for a moment.
const diskReserve = 16 << 20

// checkReserve returns an error if the file would take space that must stay free. A Writer needs space to move the log into
// the database and to thin the file. If several Writers fill a disk with snapshots, none of them has it, and none can ever
// write again. The first snapshot may use the reserve.
func (w *Writer) checkReserve() error {
	isFirst := w.enc.state.seq == 0
	if isFirst || w.opts.QuotaNode == 0 {
		return nil
	}
	free, kept, err := reserve(filepath.Dir(w.path))
	if err != nil || free >= kept {
		return err
	}
	used, size, err := usage(w.db)
	if err != nil || size-used > freePages*pageSize {
		return err
	}
	return fmt.Errorf("%d KiB of the file system are free, and %d KiB are kept for thinning: the disk is full", free>>10, kept>>10)
}

// reserve returns how much of the file system of dir is free, and how much of it must stay free, in bytes.
func reserve(dir string) (free, kept int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(blocks) * st.Bsize, min(diskReserve, int64(st.Blocks)*st.Bsize/8), nil
}
