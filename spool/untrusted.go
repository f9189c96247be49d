package spool

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/resource-tracker/rt/internal/recovery"
)

// A Reader does not trust its file, because a user can give any file to the staff of a site. It
// compares the schema before the first query. The queries have limits, because the pages of a file
// with a valid schema can form a cycle. See "Files of others" in DESIGN.md.
const (
	maxValue = 2 * maxRecord // bytes of one value or row
	maxKept  = 32 << 20      // bytes of the rows that one query keeps in memory
	maxHeap  = 160 << 20     // bytes that SQLite uses in this process; a file with a full cache takes 0.8 MiB
	minRow   = 4             // minimum bytes of a row in the file
	sizeRows = 1 << 16       // rows between two comparisons with the size of the file
)

// stepLimit bounds the time until the next row. Tests lower it.
var stepLimit = 10 * time.Second

// stepRate is the minimum rate at which SQLite reads a file, in bytes per second. It extends
// stepLimit for large files.
const stepRate = 16 << 20

// limit sets the limits of a connection for a Reader. size is the disk space of the file, in
// bytes.
func (c *conn) limit(size int64) error {
	c.c.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, maxValue)
	c.size, c.blocks = sizeOf(c.path), size
	c.step = stepLimit + time.Duration(size/stepRate)*time.Second
	return c.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
}

// identityWeight is the maximum number of bytes that identities take in memory for each byte of the
// file. The identity of a process takes about 160 bytes in memory. Its rows take over 40 bytes in
// the file, or fewer on a disk that compresses.
const identityWeight = 16

// maxIdentities is the maximum memory of the identities of a list, in bytes. It grows with the file,
// because a long run has many identities.
func (c *conn) maxIdentities() int64 {
	return max(maxKept, identityWeight*max(c.blocks, blocksOf(c.path)))
}

// blocksOf returns the disk space of a run's files, in bytes. The size of a sparse file is larger.
func blocksOf(path string) (n int64) {
	for _, name := range [...]string{path, path + "-wal"} {
		var st syscall.Stat_t
		if syscall.Lstat(name, &st) == nil {
			n += st.Blocks * 512
		}
	}
	return n
}

// within calls open, which opens the file at path, and stops waiting for it at the limit. SQLite
// cannot be interrupted while it parses the schema, so the goroutine may remain.
func within(path string, open func() (*Reader, error)) (*Reader, error) {
	type result struct {
		r   *Reader
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer recovery.Handle(func(err error) { done <- result{nil, err} })
		r, err := open()
		done <- result{r, err}
	}()
	timer := time.NewTimer(2*stepLimit + busyTimeout*time.Millisecond)
	defer timer.Stop()
	select {
	case got := <-done:
		return got.r, got.err
	case <-timer.C:
		go func() {
			defer recovery.Handle(func(error) {}) // the caller no longer waits
			if late := <-done; late.r != nil {
				late.r.Close() // nothing was changed
			}
		}()
		return nil, fmt.Errorf("%s: %w: it could not be opened in %v; move it away", path, ErrLimit, 2*stepLimit)
	}
}

// limitedRows are the rows of a Reader's statement.
type limitedRows struct {
	driver.Rows
	c      *conn
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	n      int64
}

func (c *conn) limited(ctx context.Context, sql string, args []driver.Value) (driver.Rows, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	rows, err := c.c.QueryContext(ctx, sql, named(args))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r := &limitedRows{Rows: rows, c: c, ctx: ctx, cancel: cancel}
	r.timer = time.AfterFunc(c.step, func() {
		cancel(fmt.Errorf("%w: no answer in %v; its tables have a cycle, or its disk does not answer", ErrLimit, c.step))
	})
	r.timer.Stop()
	return r, nil
}

// Next interrupts SQLite at the end of the context and at the limit.
func (r *limitedRows) Next(row []driver.Value) error {
	r.timer.Reset(r.c.step)
	err := r.Rows.Next(row)
	r.timer.Stop()
	if err != nil {
		if cause := context.Cause(r.ctx); cause != nil {
			return cause
		}
		return err
	}
	r.n++
	if r.n%sizeRows == 0 && r.n > max(r.c.size, sizeOf(r.c.path))/minRow { // it may grow, or be removed
		return fmt.Errorf("%w: a table has more rows than fit into the file", ErrLimit)
	}
	return nil
}

func (r *limitedRows) Close() error {
	r.timer.Stop()
	defer r.cancel(nil)
	return r.Rows.Close()
}

func sizeOf(path string) (n int64) {
	for _, name := range [...]string{path, path + "-wal"} {
		if st, err := os.Lstat(name); err == nil {
			n += st.Size()
		}
	}
	return n
}

// weight estimates the memory of a row, in bytes.
func weight(row []driver.Value) int64 { return int64(32 + 16*len(row) + textOf(row)) }

// object is a row of sqlite_schema.
type object struct{ kind, name, table, sql string }

// superJournal is the end of a journal that names another file, which SQLite then deletes. rt
// changes one database at a time, so its journals never have this end.
const superJournal = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

// ownFiles refuses a log or journal that is a link or names another file, because SQLite writes
// and deletes these files.
func ownFiles(path string) error {
	for _, suffix := range [...]string{"-wal", "-shm", "-journal"} {
		name := path + suffix
		st, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open the spool file: %w", err)
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.Mode().IsRegular() || sys.Nlink != 1 {
			return fmt.Errorf("%s: %w: it must be a regular file with one name; remove it", name, ErrForeign)
		}
	}
	end := make([]byte, len(superJournal))
	f, err := os.OpenFile(path+"-journal", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil // there is none, or SQLite reports the error
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.Size() >= int64(len(end)) {
		_, err = f.ReadAt(end, st.Size()-int64(len(end)))
	}
	if err != nil {
		return fmt.Errorf("open the spool file: %w", err)
	}
	if string(end) == superJournal {
		return fmt.Errorf("%s: %w: the journal names another file; remove it", f.Name(), ErrForeign)
	}
	return nil
}

// schemas caches the schemas of rt's own databases by the migrations that lead to them.
var schemas sync.Map // of map[object]bool

// schema returns the objects in a database of a version. It also limits the memory of SQLite in
// this process, because SQLite parses the schema of a file before rt can compare it.
func schema(version int) (map[object]bool, error) {
	key := strings.Join(migrations[:version-firstVersion], "\n")
	if known, ok := schemas.Load(key); ok {
		return known.(map[object]bool), nil
	}
	known := map[object]bool{}
	err := withEmptyDB(key, func(c *conn) error {
		err := c.objects(func(o object) error {
			known[o] = true
			return nil
		})
		if err == nil {
			err = c.exec(pragma("hard_heap_limit", maxHeap))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the schema of version %d: %w", version, err)
	}
	schemas.Store(key, known)
	return known, nil
}

// withEmptyDB calls f with a database in memory: emptyDB after these migrations.
func withEmptyDB(migrations string, f func(*conn) error) error {
	opened, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return err
	}
	c := &conn{c: opened.(*sqlite3.SQLiteConn)}
	room := make([]byte, 64<<10) // for a migration: SQLite does not enlarge the database
	err = c.c.Deserialize(append([]byte(emptyDB), room...), "main")
	if err == nil {
		err = c.exec(migrations)
	}
	if err == nil {
		err = f(c)
	}
	return errors.Join(err, c.Close())
}

// ours returns an error unless each statement of the schema belongs to its version. A view or a
// trigger in the place of a table would run with the rights of the reader.
func (c *conn) ours(version int) error {
	known, err := schema(version)
	if err != nil {
		return err
	}
	n := 0
	err = c.objects(func(o object) error {
		n++
		if !known[o] || n > len(known) {
			return fmt.Errorf("%w: rt does not make the %s %s that it holds", ErrForeign, o.kind, o.name)
		}
		return nil
	})
	if err == nil && n != len(known) {
		err = fmt.Errorf("it holds %d tables and views, not %d", n, len(known))
	}
	return err
}

func (c *conn) objects(f func(object) error) error {
	return c.each("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema", nil, func(row []driver.Value) error {
		var o object
		for i, field := range [...]*string{&o.kind, &o.name, &o.table, &o.sql} {
			text, ok := row[i].(string)
			if !ok {
				return fmt.Errorf("its schema has a row with %T", row[i])
			}
			*field = text
		}
		return f(o)
	})
}
