package spool

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	quotaFloor = 128 << 10   // bytes of content; QuotaNode does not thin a tracked run below this size
	endedFloor = 96 << 10    // bytes; the file of a run that has ended is not thinned below this size
	nodeEvery  = time.Minute // between two checks of the directory if little room is left
	nodeSeldom = 5           // at most this many nodeEvery are between two checks
	nodeGrowth = 128 << 20   // bytes by which the directory is assumed to grow in nodeEvery: 1,000 new runs
	thinAtOnce = 4           // maximum number of stretches that are thinned per commit
	logReserve = 480 << 10   // bytes for the log and its index (-wal, -shm); both are largest after a stretch was thinned
	vacuumStep = 256         // maximum number of pages that are returned to the file system per commit
	freePages  = 32          // number of free pages in a file with which a commit needs no new ones
)

// quota limits the size of a writer's file. DESIGN.md describes stretches, thinning and sealed
// batches. In this file, the log is SQLite's write-ahead log (WAL).
type quota struct {
	db            *conn
	dir           string // of the file
	clock         *clock
	run, node     int64 // Options.QuotaRun and QuotaNode
	mayUseReserve bool  // the next commit may use the reserve of the disk

	limit       int64 // bytes of content, 0: none
	isNodeLimit bool  // limit follows from QuotaNode, not from QuotaRun
	next        int64 // time of the next check of the directory, as Snapshot.Boot
	thin        *thinner
	err         error    // of the last attempt; the next commit tries again
	recorded    notified // the events that are in the ledger
}

// enforce thins old snapshots if the file is larger than its limit. If that fails, the file
// grows, and the next commit tries again.
func (q *quota) enforce() error {
	if q.run == 0 && q.node == 0 {
		return nil
	}
	if err := q.updateLimit(); err != nil || q.limit == 0 {
		return err
	}
	for range thinAtOnce {
		used, _, err := usage(q.db)
		if err != nil {
			return err
		}
		if used <= q.limit {
			break
		}
		if more, err := q.thinOne(q.limitName(), stretchKept); err != nil || !more {
			return err
		}
	}
	if !q.isNodeLimit {
		return nil
	}
	return q.releasePages()
}

// outcome keeps the result of an attempt. It returns an event for the ledger when thinning starts
// to fail and when it succeeds again, at most one such pair per minute. A locked database is not
// a failure.
func (q *quota) outcome(err error) (e rt.Event, isNews bool) {
	q.err = err
	if busy(err) {
		return e, false
	}
	e = rt.Event{Time: time.Unix(0, q.clock.wall).UTC(), Kind: "spool", Name: "quota", Status: "ok", Detail: "old snapshots are thinned again"}
	if err != nil {
		e.Status, e.Detail = "failed", "old snapshots could not be thinned, the file grows beyond its quota: "+err.Error()
	}
	return e, q.recorded.wants(&e, q.clock.boot)
}

// releasePages returns free pages and the log to the file system. It keeps enough free pages for
// one commit, because on a full disk the file could not get them again.
func (q *quota) releasePages() error {
	used, size, err := usage(q.db)
	if err != nil || size-used < 2*freePages*pageSize {
		return err
	}
	pages := min(vacuumStep, (size-used)/pageSize-freePages)
	if err := q.db.all(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages)); err != nil {
		return err
	}
	return q.db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
}

// contentBound returns the limit of the database's content: limit minus the log and its index.
func contentBound(limit int64) int64 { return max(limit/2, limit-logReserve) }

// thinOne thins the next stretch, see thinNext. It returns false if nothing is left to thin.
func (q *quota) thinOne(why string, shortest int64) (bool, error) {
	if q.thin == nil {
		q.thin = &thinner{c: q.db, kept: stretchKept}
	}
	_, found, err := q.thin.thinNext(why, shortest)
	return found, err
}

// limitName names the limit for the ledger.
func (q *quota) limitName() string {
	if q.isNodeLimit {
		return "spool.quota_node"
	}
	return "spool.quota_run"
}

// updateLimit sets the limit, at most once a minute, and less often if there is room, see
// nextCheck. It reads the size of each file of the directory, as each tracker of the node does.
//
// At first the limit is the content that QuotaRun permits. Two rules change it:
//   - If the files of the directory are larger than nodeBound, the limit becomes three quarters of
//     the current content, at least quotaFloor. It is a node limit from then on.
//   - If the files are smaller than three quarters of nodeBound, a node limit grows by a quarter,
//     up to the limit of QuotaRun.
func (q *quota) updateLimit() error {
	if q.clock.boot < q.next {
		return nil
	}
	q.next = q.clock.boot + int64(nodeEvery)
	if q.limit == 0 && q.run > 0 {
		q.limit = contentBound(q.run)
	}
	if q.node == 0 {
		return nil
	}
	total, err := dirUsage(q.dir)
	if err != nil {
		return err
	}
	bound, err := nodeBound(q.dir, q.node)
	if err != nil {
		return err
	}
	switch {
	case total > bound:
		used, _, err := usage(q.db)
		if err != nil {
			return err
		}
		q.limit, q.isNodeLimit = max(quotaFloor, used*3/4), true
	case q.isNodeLimit && total < bound*3/4:
		q.limit += q.limit / 4
		if run := contentBound(q.run); q.run > 0 && q.limit >= run {
			q.limit, q.isNodeLimit = run, false
		}
	}
	if !q.isNodeLimit {
		q.next = q.clock.boot + int64(nextCheck(bound-total))
	}
	return nil
}

// nextCheck returns the time until the next check. The directory may grow by room bytes until it
// exceeds its bound.
func nextCheck(room int64) time.Duration {
	return nodeEvery * time.Duration(min(max(room/nodeGrowth, 1), nodeSeldom))
}

// nodeBound returns the quota of the node, but at most three quarters of its file system.
func nodeBound(dir string, configured int64) (int64, error) {
	_, size, err := space(dir)
	return min(configured, size/4*3), err
}

// logPages returns the size of the log, in pages, at which SQLite copies the log to the database.
// The size is smaller on a small disk.
func logPages(dir string, quotaNode int64) int64 {
	if quotaNode == 0 {
		return walPages
	}
	bound, err := nodeBound(dir, quotaNode)
	if err != nil {
		return walPages
	}
	return min(walPages, max(walPages/16, bound>>16))
}

// dirUsage returns the disk space of the files of a directory, in bytes.
func dirUsage(dir string) (int64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, f := range files {
		n, err := diskUsage(filepath.Join(dir, f.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// diskUsage returns the disk space of one file, in bytes.
func diskUsage(path string) (int64, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Blocks * 512, nil
	}
	return st.Size(), nil
}

// usage returns two sizes of a database in bytes: its content, and its file. The file is larger
// by the free pages.
func usage(c *conn) (used, size int64, err error) {
	pages, err := c.queryInt("PRAGMA page_count")
	if err != nil {
		return 0, 0, err
	}
	free, err := c.queryInt("PRAGMA freelist_count")
	return (pages - free) * pageSize, pages * pageSize, err
}

func lastSealed(c *conn) (int64, error) { return c.queryInt("SELECT max(last_seq) FROM batch") }

// thinnedStatus marks the single event that counts the thinned snapshots.
const thinnedStatus = "thinned"

// noteThinned adds dropped to the number of snapshots in the event with thinnedStatus.
func noteThinned(c *conn, dropped int64, why string) error {
	before, err := thinned(c)
	if err != nil {
		return err
	}
	wall, err := c.queryInt(lastWall)
	if err != nil {
		return err
	}
	e := rt.Event{
		Time: time.UnixMicro(wall).UTC(), Kind: "spool", Name: why, Status: thinnedStatus,
		Detail: fmt.Sprintf("%d snapshots were thinned to save room: those that follow them carry their totals", before+dropped),
	}
	columns := columnsOf(&e)
	if before == 0 {
		return c.insert("event", columns)
	}
	args := append(values(columns), thinnedStatus)
	_, err = c.change("UPDATE event SET ("+names(columns)+") = ("+placeholders(len(columns))+") WHERE kind = 'spool' AND status = ?", args...)
	return err
}

// thinned returns how many snapshots thinning has deleted, according to the ledger.
func thinned(c *conn) (n int64, err error) {
	err = c.each("SELECT detail FROM event WHERE kind = 'spool' AND status = ?", []driver.Value{thinnedStatus}, func(row []driver.Value) error {
		text, _ := row[0].(string)
		var some int64
		if _, err := fmt.Sscanf(text, "%d snapshots", &some); err != nil {
			return fmt.Errorf("the ledger's line %q does not say how many snapshots were thinned", text)
		}
		n += some
		return nil
	})
	return n, err
}
