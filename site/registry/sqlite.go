package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver
	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site"
)

// groupMax is the largest number of changes in one transaction of SQLite.
const groupMax = 256

// readers is the number of SQLite connections that read at the same time.
const readers = 4

// sqliteWriter is the one goroutine that writes a SQLite file. It puts all changes that wait into
// one transaction, so that they share one fsync.
type sqliteWriter struct {
	path  string
	db    *sql.DB
	tx    *prepared
	queue chan *change
	stop  chan struct{} // closed by close
	ended chan struct{} // closed at the end of the goroutine
	err   error         // why it has ended
}

// change is a change that waits for the writer.
type change struct {
	ctx  context.Context
	do   func(transaction) error
	err  error
	done chan struct{}
}

var errClosed = errors.New("the registry is closed")

func openSQLite(ctx context.Context, path string, c Config) (*Registry, error) {
	if err := checkRoom(path); err != nil {
		return nil, err
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	base := sqliteDSN(path)
	db, err := sql.Open("sqlite3", base+"&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	read, err := sql.Open("sqlite3", base+"&_query_only=true&_cache_size=-8000")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	w := &sqliteWriter{path: path, db: db, queue: make(chan *change), stop: make(chan struct{}), ended: make(chan struct{})}
	if err := w.start(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close(), read.Close())
	}
	d := dialect{integrity: "SELECT integrity_check FROM pragma_integrity_check", wipe: "PRAGMA wal_checkpoint(TRUNCATE)", batch: groupMax, shards: 1}
	return newRegistry(read, w, d, c), nil
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

func (w *sqliteWriter) start(ctx context.Context, c Config) error {
	if err := migrate(ctx, goose.DialectSQLite3, w.db, c); err != nil {
		return err
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.tx = &prepared{conn: conn, statements: map[string]*sql.Stmt{}}
	go w.run()
	return nil
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

func (w *sqliteWriter) close() error {
	close(w.stop)
	<-w.ended
	return errors.Join(w.tx.close(), w.db.Close())
}

func (w *sqliteWriter) change(ctx context.Context, f func(transaction) error) error {
	c := &change{ctx: ctx, do: f, done: make(chan struct{})}
	select {
	case w.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
		return w.err
	}
	select {
	case <-c.done:
		return c.err
	case <-w.ended:
	}
	select { // both, if this change was one of the last
	case <-c.done:
		return c.err
	default:
		return w.err
	}
}

func (w *sqliteWriter) broken() (<-chan struct{}, func() error) {
	return w.ended, func() error { return w.err }
}

func (w *sqliteWriter) run() {
	defer recovery.Handle(w.end)
	for {
		select {
		case c := <-w.queue:
			w.commit(w.group(c))
		case <-w.stop:
			w.end(errClosed)
			return
		}
	}
}

func (w *sqliteWriter) end(err error) {
	w.err = err
	close(w.ended)
}

// group returns the changes that wait, c first.
func (w *sqliteWriter) group(c *change) []*change {
	group := []*change{c}
	for len(group) < groupMax {
		select {
		case c := <-w.queue:
			group = append(group, c)
		default:
			return group
		}
	}
	return group
}

// commit makes a group of changes in one transaction. If a change fails, commit makes the group
// again and undoes the failing change by itself. If the transaction fails, all changes fail.
func (w *sqliteWriter) commit(group []*change) {
	err := w.apply(group, w.make)
	isOne := errors.Is(err, errOne)
	if isOne && len(group) > 1 {
		_ = w.tx.exec("ROLLBACK") // there may be no transaction
		err = w.apply(group, w.makeAlone)
	}
	if err != nil {
		_ = w.tx.exec("ROLLBACK")
	}
	for _, c := range group {
		if c.err == nil {
			c.err = err
		}
		close(c.done)
	}
}

// apply makes changes with a function in one transaction, until it returns an error.
func (w *sqliteWriter) apply(group []*change, one func(*change) error) error {
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, c := range group {
		c.err = c.ctx.Err()
		if c.err != nil {
			continue
		}
		if err := one(c); err != nil {
			return err
		}
	}
	if err := w.tx.exec("COMMIT"); err != nil {
		return fmt.Errorf("%w: %w", site.ErrUnclear, err)
	}
	return nil
}

// errOne means that a change of a group has failed.
var errOne = errors.New("a change has failed")

// make makes a change. If it fails, the transaction must be rolled back.
func (w *sqliteWriter) make(c *change) error {
	c.err = call(c.do, w.tx)
	if c.err != nil {
		return errOne
	}
	return nil
}

// makeAlone makes a change in a savepoint. Then SQLite writes each old page to a file, which is most of what it writes.
func (w *sqliteWriter) makeAlone(c *change) error {
	if err := w.tx.exec("SAVEPOINT one"); err != nil {
		return err
	}
	c.err = call(c.do, w.tx)
	if c.err != nil {
		if err := w.tx.exec("ROLLBACK TO one"); err != nil {
			return rolledBackWith(c.err, err) // SQLite has rolled back the transaction: each change fails
		}
	}
	return w.tx.exec("RELEASE one")
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

// prepared is a connection that prepares each statement once. The statements ignore the context of
// the change, because SQLite may roll back the whole transaction when a statement is interrupted.
type prepared struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func (p *prepared) statement(query string) (*sql.Stmt, error) {
	if s := p.statements[query]; s != nil {
		return s, nil
	}
	s, err := p.conn.PrepareContext(context.Background(), query)
	if err == nil {
		p.statements[query] = s
	}
	return s, err
}

func (p *prepared) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.statement(query)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

func (p *prepared) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.statement(query)
	if err != nil {
		return nil, err
	}
	return s.Query(args...)
}

func (p *prepared) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	s, err := p.statement(query)
	if err != nil { // the row reports the error
		return p.conn.QueryRowContext(context.Background(), query, args...)
	}
	return s.QueryRow(args...)
}

func (p *prepared) exec(query string) error {
	_, err := p.ExecContext(context.Background(), query)
	return err
}

func (p *prepared) close() error {
	var failed []error
	for _, s := range p.statements {
		failed = append(failed, s.Close())
	}
	return errors.Join(append(failed, p.conn.Close())...)
}
