package spool

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// Reader reads the file of one run and keeps its ledger of deliveries. It may be
// used while the run's tracker writes, from one goroutine at a time.
type Reader struct {
	path     string
	db       *conn
	readOnly bool
	noLog    bool // the log of a run without a tracker is not there
	version  int  // of the schema
	run      rt.Run
	host     rt.Host
}

// Open opens a run's file. What a killed tracker left in the log is recovered, and
// an ended run becomes one plain file, where the file may be written; else it is
// opened as it is. Errors name the file and wrap ErrForeign, ErrNewer or
// ErrDamaged where the file is not what it should be. Symbolic links are refused.
func Open(path string) (*Reader, error) {
	r, err := openReader(path)
	if err != nil {
		return nil, err
	}
	err = r.upgrade()
	if err == nil && r.run.State != rt.StateRunning && !r.readOnly {
		err = describe(path, r.tidy())
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openReader is Open for who only looks: the file stays in its version. Who may write is
// let at a log only when he has been seen to understand it: the last one to close brings
// it into the database and removes it, also where he could read nothing of it, of a newer
// version for instance. A journal beside it is that of a log's end: it holds nothing more.
func openReader(path string) (*Reader, error) {
	st, readOnly, params, err := howToOpen(path)
	if err != nil {
		return nil, err
	}
	hadLog := exists(path + "-wal")                      // SQLite makes one
	if hadLog && !readOnly && !exists(path+"-journal") { // which only a writer can undo
		look := maps.Clone(params)
		look["mode"] = []string{"ro"}
		r, err := newReader(path, st, look)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	r, err := newReader(path, st, params)
	if err != nil {
		return nil, err
	}
	if r.readOnly = readOnly; r.run.State == rt.StateRunning {
		if err := r.keepLog(hadLog); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// newReader opens the file that was st, and reads what it is.
func newReader(path string, st fs.FileInfo, params url.Values) (*Reader, error) {
	c, err := openConn(path, params)
	if err != nil {
		return nil, describe(path, err)
	}
	r := &Reader{path: path, db: c}
	if err = unchanged(path, st); err == nil {
		r.version, err = check(c, path)
	}
	if err == nil {
		err = r.load()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return r, nil
}

// upgrade brings an older file to this version, but not below a tracker of the
// older version that still writes it. Where that cannot be done now, for want of
// room say, the file is read as it is.
func (r *Reader) upgrade() error {
	if r.version >= newest() || r.readOnly {
		return nil
	}
	if live, err := live(r.path); err != nil || live {
		return err
	}
	if err := r.db.exec(pragma("busy_timeout", patienceEnded)); err != nil {
		return err
	}
	if r.journaled(func() error { return migrate(r.db, r.version) }) == nil {
		r.version = newest()
	}
	return r.db.exec(pragma("busy_timeout", patience))
}

// How long another process is waited for, in milliseconds. A tracker writes, and is
// done at once. Who may read an ended file can keep it locked as long as he likes.
const (
	patience      = 5000
	patienceEnded = 100
)

// patient runs what changes the file, and waits for others no longer than it should.
func (r *Reader) patient(f func() error) error {
	alive, err := r.Live()
	if err != nil || alive {
		return errors.Join(err, f())
	}
	if err := r.db.exec(pragma("busy_timeout", patienceEnded)); err != nil {
		return err
	}
	return errors.Join(r.journaled(f), r.db.exec(pragma("busy_timeout", patience)))
}

// howToOpen looks at the file from outside. The ledger of batches must survive a
// power failure: a Reader's commits are synced (FULL).
func howToOpen(path string) (st fs.FileInfo, readOnly bool, params url.Values, err error) {
	st, err = os.Lstat(path)
	if err != nil {
		return nil, false, nil, fmt.Errorf("open the spool file: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, false, nil, fmt.Errorf("%s: %w: it is a %s", path, ErrForeign, kindOf(st.Mode()))
	}
	if err := trusted(path, st); err != nil {
		return nil, false, nil, err
	}
	params = url.Values{"mode": {"rw"}, "_synchronous": {"FULL"}, "_busy_timeout": {strconv.Itoa(patience)}}
	if syscall.Access(path, writable) == nil && syscall.Access(filepath.Dir(path), writable) == nil {
		return st, false, params, nil
	}
	params.Set("mode", "ro")
	if !exists(path+"-wal") && !exists(path+"-journal") {
		params.Set("immutable", "1") // without a log SQLite would still want to make one
	}
	return st, true, params, nil
}

// exists says whether anything has that name, or may have.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// writable is W_OK of access(2).
const writable = 2

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link, which is not followed"
	}
	return "special file"
}

// load reads the run and the host.
func (r *Reader) load() error {
	var run rt.Run
	n, err := one(r.db, "run", runColumns(&run))
	if err == nil && n != 1 {
		err = fmt.Errorf("it holds %d runs", n)
	}
	if err == nil {
		_, err = one(r.db, "host", hostColumns(&r.host))
	}
	if err != nil {
		return r.broken(err)
	}
	r.run = run
	return nil
}

// broken wraps what was wrong with the content of the file.
func (r *Reader) broken(err error) error {
	if described := describe(r.path, err); described.Error() != err.Error() {
		return described
	}
	return damaged(r.path, err)
}

// one scans the only row of a table and returns how many there are.
func one(c *conn, table string, columns []column) (n int, err error) {
	err = c.each(selectSQL(table, columns), nil, func(row []driver.Value) error {
		n++
		return scan(row, columns)
	})
	return n, err
}

// tidy folds the log of a run that has ended, unless another process has it open.
func (r *Reader) tidy() error {
	inLog, err := r.db.inLog()
	switch {
	case err != nil:
		return err
	case !inLog:
		return r.sweep()
	}
	if err = fold(r.db); busy(err) {
		err = hideLog(r.path)
	}
	return errors.Join(err, r.db.exec(pragma("busy_timeout", patience)))
}

// Close lets go of the file.
func (r *Reader) Close() error {
	if r.db == nil {
		return nil
	}
	c := r.db
	r.db = nil
	return c.Close()
}

// Path is the run's file.
func (r *Reader) Path() string { return r.path }

// Run is the run as it stood when the file was opened or last changed through this Reader.
func (r *Reader) Run() rt.Run { return r.run }

// Host is the machine that the run was tracked on.
func (r *Reader) Host() rt.Host { return r.host }

// Live says whether the run's tracker is alive.
func (r *Reader) Live() (bool, error) { return live(r.path) }

// LastSeq is the number of the newest snapshot, 0 where there is none.
func (r *Reader) LastSeq() (int64, error) {
	n, err := r.db.queryInt("SELECT max(seq) FROM snapshot_delta")
	return n, describe(r.path, err)
}

// Count is how many snapshots there are.
func (r *Reader) Count() (int64, error) {
	n, err := r.db.queryInt("SELECT count(*) FROM snapshot_delta")
	return n, describe(r.path, err)
}

// DeliveredAt is when the run was marked as delivered, zero before.
func (r *Reader) DeliveredAt() (time.Time, error) {
	var t time.Time
	_, err := one(r.db, "run", []column{{"delivered_us", &t}})
	return t, describe(r.path, err)
}

// Events returns the quality ledger in the order it was written.
func (r *Reader) Events() ([]rt.Event, error) {
	return all(r, "event ORDER BY id", eventColumns)
}

// Batches returns the sealed batches, ascending.
func (r *Reader) Batches() ([]rt.Batch, error) {
	return all(r, "batch ORDER BY number", batchColumns)
}

// all scans every row of a table.
func all[T any](r *Reader, from string, columns func(*T) []column) ([]T, error) {
	var list []T
	var zero T
	err := r.db.each(selectSQL(from, columns(&zero)), nil, func(row []driver.Value) error {
		list = append(list, zero)
		return scan(row, columns(&list[len(list)-1]))
	})
	if err != nil {
		return nil, r.broken(err)
	}
	return list, nil
}

// Registration is what is known of the run at the receiver; false before the
// first intent.
func (r *Reader) Registration() (rt.Registration, bool, error) {
	list, err := all(r, "registration", registrationColumns)
	if err != nil || len(list) == 0 {
		return rt.Registration{}, false, err
	}
	return list[0], true, nil
}
