package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	_ "github.com/mattn/go-sqlite3" // the driver
	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site"
)

// batchMax is the largest number of runs that one transaction of SQLite changes.
const batchMax = 256

// readers is the number of SQLite connections that read at the same time.
const readers = 4

// sqliteWriter writes a SQLite file. It puts all changes that wait into one transaction, so that they share one fsync.
type sqliteWriter struct {
	path    string
	db      *sql.DB
	turn    chan struct{} // of the change that makes all
	mu      sync.Mutex    // for waiting
	waiting []*change
}

// change is a change that waits for the writer.
type change struct {
	ctx  context.Context
	do   func(transaction) error
	err  error
	done chan struct{}
}

func openSQLite(ctx context.Context, path string, c Config) (*Registry, error) {
	if err := checkRoom(path); err != nil {
		return nil, err
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	base := sqliteDSN(path)
	db, err := sql.Open("sqlite3", base+"&_txlock=immediate&_stmt_cache_size=100")
	if err != nil {
		return nil, err
	}
	read, err := sql.Open("sqlite3", base+"&_query_only=true&_cache_size=-8000")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	if err := migrate(ctx, goose.DialectSQLite3, db, c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close(), read.Close())
	}
	d := dialect{integrity: "SELECT integrity_check FROM pragma_integrity_check", wipe: "PRAGMA wal_checkpoint(TRUNCATE)", batch: batchMax, shards: 1}
	return newRegistry(read, &sqliteWriter{path: path, db: db, turn: make(chan struct{}, 1)}, d, c), nil
}

// sqliteDSN is how the file is opened. What is deleted is overwritten: rt-site forget promises it.
// EXTRA would add a sync of the directory of a rollback journal, which WAL does not have.
func sqliteDSN(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?_busy_timeout=10000&_journal_mode=WAL&_synchronous=FULL&_secure_delete=true"
}

// another opens the database once more.
func (w *sqliteWriter) another() (*sql.DB, bool, error) {
	db, err := sql.Open("sqlite3", sqliteDSN(w.path)+"&_txlock=immediate")
	return db, false, err
}

// startRoom is the free space, in bytes, that a registry needs where blocks are smaller than a page, as on a small ext4.
// SQLite maps its -shm file into memory. A write to a page that lacks a block ends the program with SIGBUS if the disk
// is full.
const startRoom = 1 << 20

// checkRoom returns site.ErrFull if the file system of a path is full.
func checkRoom(path string) error {
	var st unix.Statfs_t
	err := unix.Statfs(filepath.Dir(path), &st)
	hasWholePages := st.Bsize >= int64(os.Getpagesize())
	if err != nil || hasWholePages {
		return nil // createFile reports a directory that is missing
	}
	free := st.Bavail
	if os.Geteuid() == 0 {
		free = st.Bfree
	}
	if bytes := free * uint64(st.Bsize); bytes < startRoom {
		return fmt.Errorf("open %s: %w: %d KiB are free: free 1 MiB, and start it again", path, site.ErrFull, bytes>>10)
	}
	return nil
}

// createFile creates the database durably, readable by its owner only: it holds the keys of the
// service. SQLite gives its other files the same mode.
func createFile(path string) error {
	dir := filepath.Dir(path)
	if err := file.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), file.SyncDir(dir))
}

// exclusive locks a file next to the database.
func (w *sqliteWriter) exclusive(context.Context) (check func(context.Context) error, release func() error, err error) {
	f, err := os.OpenFile(w.path+"-lake.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return func(context.Context) error { return nil }, f.Close, nil
}

func (w *sqliteWriter) close() error { return w.db.Close() }

func (w *sqliteWriter) change(ctx context.Context, f func(transaction) error) error {
	c := &change{ctx: ctx, do: f, done: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	w.mu.Unlock()
	select {
	case <-c.done: // another one has made it
		return c.err
	case w.turn <- struct{}{}:
	}
	runtime.Gosched() // so that clients that have just been answered come along
	w.mu.Lock()
	group := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	w.commit(group)
	<-w.turn
	<-c.done
	return c.err
}

// commit makes a group of changes in one transaction. If it fails, all of them fail.
func (w *sqliteWriter) commit(group []*change) {
	err := w.apply(group)
	for _, c := range group {
		if c.err == nil {
			c.err = err
		}
		close(c.done)
	}
}

func (w *sqliteWriter) apply(group []*change) (err error) {
	defer recovery.Handle(func(p error) { err = p })
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	for _, c := range group {
		if err := c.make(steady{tx}); err != nil {
			_ = tx.Rollback() // there may be no transaction
			return err
		}
	}
	return commitError(tx.Commit())
}

// make makes a change in a savepoint, so that a change that fails does not undo the others.
func (c *change) make(tx transaction) error {
	c.err = c.ctx.Err()
	if c.err != nil {
		return nil
	}
	if err := execute(c.ctx, tx, "SAVEPOINT one"); err != nil {
		return err
	}
	c.err = call(c.do, tx)
	if c.err != nil {
		if err := execute(c.ctx, tx, "ROLLBACK TO one"); err != nil {
			return rolledBackWith(c.err, err) // SQLite has rolled back the transaction: each change fails
		}
	}
	return execute(c.ctx, tx, "RELEASE one")
}

// rolledBackWith is the error of the other changes in a transaction that failed because one of them did.
// Why that one failed concerns the others only if the disk is full.
func rolledBackWith(one, rollback error) error {
	if isFull(one) {
		return one
	}
	return fmt.Errorf("the database has rolled back several changes, because one of them failed: %w", rollback)
}

// call calls f and converts its panic to an error.
func call(f func(transaction) error, tx transaction) (err error) {
	defer recovery.Handle(func(p error) { err = p })
	return f(tx)
}

// steady is a transaction whose statements ignore the context of the change, because SQLite may roll back the whole
// transaction when a statement is interrupted.
type steady struct{ tx *sql.Tx }

func (s steady) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	return s.tx.ExecContext(context.Background(), query, args...)
}

func (s steady) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.tx.QueryContext(context.Background(), query, args...)
}

func (s steady) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	return s.tx.QueryRowContext(context.Background(), query, args...)
}
