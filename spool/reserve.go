package spool

import (
	"fmt"
	"os"
	"syscall"
)

const (
	// thinReserve is the space in bytes that must be free on the file system, or else a Writer thins its file before it
	// writes. To thin it, a Writer needs up to logReserve for a moment.
	thinReserve = 16 << 20
	// lastReserve is the space that Writers leave free also if there is nothing to thin.
	lastReserve = 4 << 20
)

// checkReserve returns an error if the next commit would take space that must stay free: bytes, but at most an eighth of the
// file system. A Writer needs space to move the log into the database and to thin the file. If several Writers fill a disk
// with snapshots, none of them has it, and none can ever write again. The first snapshot, and the last ones when the run
// ends, may use the reserve.
func (q *quota) checkReserve(bytes int64) error {
	if q.mayUseReserve || q.node == 0 {
		return nil
	}
	free, size, err := space(q.dir)
	reserve := min(bytes, size/8)
	if err != nil || free >= reserve {
		return nil // if the space is not known, SQLite returns the error of a full disk
	}
	hasFreePages, err := q.hasFreePages()
	if err != nil || hasFreePages {
		return err
	}
	return fmt.Errorf("%d KiB of the file system are free, and %d KiB are kept for thinning: the disk is full", free>>10, reserve>>10)
}

// hasFreePages reports whether the file has free pages for a commit.
func (q *quota) hasFreePages() (bool, error) {
	used, size, err := usage(q.db)
	return size-used >= freePages*pageSize, err
}

// space returns how much of the file system of dir is free for this user, and its size, in bytes.
func space(dir string) (free, size int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(blocks) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// makeRoom thins stretches when the disk is full until the file has free pages for new snapshots. It can fail because the
// disk is full: then the next transaction returns the reason.
func (q *quota) makeRoom() error {
	if q.run == 0 && q.node == 0 {
		return nil
	}
	thinned, err := q.thinUntilFree()
	if thinned {
		truncateLog(q.db)
	}
	return err
}

// thinUntilFree thins stretches until the file has free pages for a commit; thinned reports whether it thinned one.
func (q *quota) thinUntilFree() (thinned bool, err error) {
	shortest := int64(stretchKept) // after a failure of the disk that leaves room, the newest snapshots stay
	if q.checkReserve(lastReserve) != nil {
		shortest = keptAtLeast
	}
	for range thinAtOnce {
		hasFreePages, err := q.hasFreePages()
		if err != nil || hasFreePages {
			return thinned, err
		}
		more, err := q.thinOne(reserveName, shortest)
		if err != nil || !more {
			return thinned, err
		}
		thinned = true
	}
	return thinned, nil
}

// reserveName names the reserve for the ledger.
const reserveName = "disk"

// truncateLog moves the log into the database and returns its space to the file system. Its error
// is not needed. If a reader or a full disk prevents that, nothing is lost, and the next
// transaction returns the reason.
func truncateLog(c *conn) { _ = c.exec("PRAGMA wal_checkpoint(TRUNCATE)") }
