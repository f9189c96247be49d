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

	"github.com/resource-tracker/rt"
)

// Reader reads the file of one run and writes the state of its delivery. It may be used while the
// run's tracker writes the file, by one goroutine at a time.
type Reader struct {
	path     string
	db       *conn
	log      runLog
	readOnly bool
	version  int // of the schema
	run      rt.Run
	host     rt.Host
}

// Open opens a run's file. With write access to the file, Open recovers the log of a killed tracker
// and moves the log of an ended run into the database. Without it the file is opened unchanged.
// Errors name the file and wrap ErrForeign, ErrNewer or ErrDamaged if it is not a valid spool
// file. Symbolic links are refused.
func Open(path string) (*Reader, error) {
	r, err := within(path, func() (*Reader, error) { return openReader(path) })
	if err != nil {
		return nil, err
	}
	err = r.upgrade()
	if err == nil && r.run.State != rt.StateRunning && !r.readOnly {
		err = describe(path, r.log.tidy())
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openReader opens a file without changing its version. A file with a log is first opened
// read-only. The last connection with write access moves the log into the database and removes it
// when it closes. It does so even to a file of a newer version, which this program cannot read. If
// there is also a journal, the log has already been moved.
func openReader(path string) (*Reader, error) {
	st, readOnly, params, err := howToOpen(path)
	if err != nil {
		return nil, err
	}
	hadLog := exists(path + "-wal") // SQLite makes one
	hasJournal := exists(path + "-journal")
	if hadLog && readOnly && !hasJournal {
		r, err := openCopy(path, st, params)
		if err != nil && !exists(path+"-wal") { // the run has ended meanwhile
			return openReader(path)
		}
		return r, err
	}
	if hadLog && !readOnly && !hasJournal { // a journal can only be rolled back with write access
		look := maps.Clone(params)
		look["mode"] = []string{"ro"}
		r, err := newReader(path, path, st, look)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	r, err := newReader(path, path, st, params)
	if err != nil {
		return nil, err
	}
	r.readOnly = readOnly
	if r.run.State == rt.StateRunning {
		err := r.log.keep(hadLog, readOnly)
		if err == nil && !hadLog && !readOnly {
			err = hideLog(path) // SQLite made it with the mode of the database
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// newReader opens file, which is that at path or a copy, and reads the run and the host. The
// file at path must still be st.
func newReader(path, file string, st fs.FileInfo, params url.Values) (*Reader, error) {
	if _, err := schema(firstVersion); err != nil { // limits the memory of SQLite before it opens the file
		return nil, err
	}
	c, err := openConn(file, params)
	if err != nil {
		return nil, describe(path, err)
	}
	r := &Reader{path: path, db: c, log: runLog{path: path, db: c}}
	err = c.limit(blocksOf(file))
	if err == nil {
		err = unchanged(path, st)
	}
	if err == nil {
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

// upgrade migrates an older file to the newest version, unless a tracker of the older version
// still writes it. If the migration fails, for example on a full disk, the file is read as it
// is.
func (r *Reader) upgrade() error {
	if r.version >= newest() || r.readOnly {
		return nil
	}
	if live, err := Live(r.path); err != nil || live {
		return err
	}
	if err := r.db.exec(pragma("busy_timeout", busyTimeoutEnded)); err != nil {
		return err
	}
	if r.log.journaled(func() error { return migrate(r.db, r.version) }) == nil {
		r.version = newest()
	}
	return r.db.exec(pragma("busy_timeout", busyTimeout))
}

// The busy timeouts in milliseconds. A tracker holds its lock briefly. The one for ended files is
// short, because any user with read access can keep an ended file locked.
const (
	busyTimeout      = 5000
	busyTimeoutEnded = 100
)

// howToOpen checks the file before it is opened. The commits of a Reader are synced (FULL),
// because the ledger of batches must survive a power failure.
func howToOpen(path string) (st fs.FileInfo, readOnly bool, params url.Values, err error) {
	st, err = os.Lstat(path)
	if err != nil {
		return nil, false, nil, fmt.Errorf("open the spool file: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, false, nil, fmt.Errorf("%s: %w: it is a %s", path, ErrForeign, kindOf(st.Mode()))
	}
	err = checkSource(path, st)
	if err == nil {
		err = ownFiles(path)
	}
	if err != nil {
		return nil, false, nil, err
	}
	params = url.Values{"mode": {"rw"}, "_synchronous": {"FULL"}, "_busy_timeout": {strconv.Itoa(busyTimeout)}}
	if syscall.Access(path, writable) == nil && syscall.Access(filepath.Dir(path), writable) == nil {
		return st, false, params, nil
	}
	params.Set("mode", "ro")
	if !exists(path+"-wal") && !exists(path+"-journal") {
		params.Set("immutable", "1") // otherwise SQLite would create a log
	}
	return st, true, params, nil
}

// exists reports whether a file with that name exists. If that cannot be determined, it returns true.
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
	n, err := one(r.db, "run", columnsOf(&run))
	if err == nil && n != 1 {
		err = fmt.Errorf("it holds %d runs", n)
	}
	if err == nil {
		_, err = one(r.db, "host", columnsOf(&r.host))
	}
	if err != nil {
		return refused(r.path, err)
	}
	r.run = run
	return nil
}

// one scans the only row of a table and returns how many there are.
func one(c *conn, table string, columns []column) (n int, err error) {
	err = c.each("SELECT "+names(columns)+" FROM "+table, nil, func(row []driver.Value) error {
		n++
		return scan(row, columns)
	})
	return n, err
}

// Close closes the file.
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

// Run returns the run as it was when the file was opened or last changed with this Reader.
func (r *Reader) Run() rt.Run { return r.run }

// Host is the machine that the run was tracked on.
func (r *Reader) Host() rt.Host { return r.host }

// Live reports whether the run's tracker is alive.
func (r *Reader) Live() (bool, error) { return Live(r.path) }

// LastSeq is the number of the newest snapshot, 0 if there is none.
func (r *Reader) LastSeq() (int64, error) {
	n, err := r.db.queryInt(lastSeq)
	return n, describe(r.path, err)
}

// lastSeq selects the number of the newest snapshot.
const lastSeq = "SELECT max(seq) FROM snapshot"

// Events returns the quality ledger in the order it was written.
func (r *Reader) Events() ([]rt.Event, error) {
	return all[rt.Event](r, "event ORDER BY id")
}

// all scans every row of a table.
func all[T any](r *Reader, from string) ([]T, error) {
	var list []T
	err := r.db.each("SELECT "+names(columnsOf(new(T)))+" FROM "+from, nil, func(row []driver.Value) error {
		element := new(T)
		err := scan(row, columnsOf(element))
		list = append(list, *element)
		return err
	})
	if err != nil {
		return nil, refused(r.path, err)
	}
	return list, nil
}
