package spool

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// conn is one connection to a database. It uses the driver without database/sql: one
// connection, statements that are prepared once, and no second copy of a row. While a
// database is open, no other code of the process opens its file: closing it would drop the
// POSIX locks of the process.
type conn struct {
	c     *sqlite3.SQLiteConn
	path  string
	stmts []*stmt
	step  time.Duration // until the next row, see untrusted.go; 0: no limit

	size, blocks int64 // of a Reader's file when it was opened: its size and disk space, in bytes
}

// background has no Done channel, so that the driver starts no goroutine per statement.
var background = context.Background()

// openConn opens the existing database at path. params belong to an SQLite URI, or to the driver if
// they begin with an underscore.
func openConn(path string, params url.Values) (*conn, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if !params.Has("_cache_size") {
		params.Set("_cache_size", "-512") // KiB
	}
	params.Set("_mutex", "no") // one goroutine at a time; SQLite would lock it for each column of a row
	uri := url.URL{Scheme: "file", Path: abs, RawQuery: params.Encode()}
	c, err := (&sqlite3.SQLiteDriver{}).Open(uri.String())
	if err != nil {
		return nil, err
	}
	return &conn{c: c.(*sqlite3.SQLiteConn), path: path}, nil
}

// Close finalizes all statements and closes the connection.
func (c *conn) Close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.s.Close())
	}
	c.stmts = nil
	return errors.Join(append(errs, c.c.Close())...)
}

// exec runs statements without parameters.
func (c *conn) exec(sql string) error {
	_, err := c.c.ExecContext(background, sql, nil)
	return err
}

// query returns the first row of a statement, nil if there is none.
func (c *conn) query(sql string, args ...driver.Value) ([]driver.Value, error) {
	var first []driver.Value
	err := c.each(sql, args, func(row []driver.Value) error {
		first = append([]driver.Value(nil), row...)
		return io.EOF
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return first, err
}

// queryInt returns the one number of a statement; NULL or no row is 0.
func (c *conn) queryInt(sql string, args ...driver.Value) (int64, error) {
	row, err := c.query(sql, args...)
	if err != nil || len(row) == 0 || row[0] == nil {
		return 0, err
	}
	n, ok := row[0].(int64)
	if !ok {
		return 0, fmt.Errorf("%T where a number was expected", row[0])
	}
	return n, nil
}

// each calls f with every row of a statement. The row is reused, but f may keep its values. each
// stops at an error of f and, for a Reader, when the values take more than maxKept.
func (c *conn) each(sql string, args []driver.Value, f func(row []driver.Value) error) error {
	return c.eachUpTo(maxKept, sql, args, f)
}

// eachUpTo is each with another limit, in bytes.
func (c *conn) eachUpTo(limit int64, sql string, args []driver.Value, f func(row []driver.Value) error) error {
	kept := int64(0)
	return c.stream(background, sql, args, func(row []driver.Value) error {
		if c.step > 0 {
			kept += weight(row)
		}
		if kept > limit {
			return fmt.Errorf("%w: a table takes more than %d MiB of memory", ErrLimit, limit>>20)
		}
		return f(row)
	})
}

// stream is each for an f that keeps nothing.
func (c *conn) stream(ctx context.Context, sql string, args []driver.Value, f func(row []driver.Value) error) (err error) {
	rows, err := c.rows(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		more, err := nextRow(rows, row)
		if err != nil || !more {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

// nextRow reads the next row. It returns false at the end.
func nextRow(rows driver.Rows, row []driver.Value) (more bool, err error) {
	err = rows.Next(row)
	if err == io.EOF {
		return false, nil
	}
	return err == nil, err
}

// rows starts a statement; it is finalized when the rows are closed.
func (c *conn) rows(ctx context.Context, sql string, args ...driver.Value) (driver.Rows, error) {
	if c.step > 0 {
		return c.limited(ctx, sql, args)
	}
	return c.c.QueryContext(ctx, sql, named(args))
}

// queryInts returns the numbers in the first column of all rows.
func (c *conn) queryInts(sql string, args ...driver.Value) (list []int64, err error) {
	err = c.each(sql, args, func(row []driver.Value) error {
		n, _ := row[0].(int64)
		list = append(list, n)
		return nil
	})
	return list, err
}

// hold gives all statements of the connection the same view of the database until the
// returned rows are closed.
func (c *conn) hold() (driver.Rows, error) {
	rows, err := c.rows(background, "SELECT id FROM run UNION ALL SELECT 2")
	if err != nil {
		return nil, err
	}
	if err := rows.Next(make([]driver.Value, 1)); err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return rows, nil
}

// all runs a statement that works in many steps.
func (c *conn) all(sql string) error {
	return c.each(sql, nil, func([]driver.Value) error { return nil })
}

// change runs one statement with parameters and returns how many rows it changed.
func (c *conn) change(sql string, args ...driver.Value) (int64, error) {
	res, err := c.c.ExecContext(background, sql, named(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// inLog reports whether the database has a write-ahead log.
func (c *conn) inLog() (bool, error) {
	row, err := c.query("PRAGMA journal_mode")
	return err == nil && len(row) > 0 && row[0] == "wal", err
}

// keepLog sets whether the file of the log remains when the last connection closes: see
// "Durability" in DESIGN.md.
func (c *conn) keepLog(keep bool) error {
	if err := c.c.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_PERSIST_WAL, b2i(keep)); err != nil {
		return fmt.Errorf("set whether the log remains: %w", err)
	}
	return nil
}

// inTx runs f in a transaction that takes the write lock at once.
func (c *conn) inTx(f func() error) error {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = c.exec("COMMIT")
	}
	if err != nil && !c.c.AutoCommit() {
		err = errors.Join(err, c.exec("ROLLBACK"))
	}
	return err
}

func named(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, v := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return list
}

// stmt is a prepared statement and its parameters: set args[i].Value, then call run.
type stmt struct {
	s    *sqlite3.SQLiteStmt
	args []driver.NamedValue
}

func (c *conn) prepare(sql string) (*stmt, error) {
	s, err := c.c.PrepareContext(background, sql)
	if err != nil {
		return nil, err
	}
	st := &stmt{s: s.(*sqlite3.SQLiteStmt)}
	st.args = named(make([]driver.Value, st.s.NumInput()))
	c.stmts = append(c.stmts, st)
	return st, nil
}

func (s *stmt) run() error {
	_, err := s.s.ExecContext(background, s.args)
	return err
}

// bindFrom sets the parameters from index i on.
func (s *stmt) bindFrom(i int, values ...driver.Value) {
	for n, v := range values {
		s.args[i+n].Value = v
	}
}

// bindColumns sets the parameters from index i on to the fields of columns.
func (s *stmt) bindColumns(i int, columns []column) {
	for n, c := range columns {
		s.args[i+n].Value = encode(c.field)
	}
}

// placeholders is "?, ?, ..." for n values.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// insert writes one row and replaces a row with the same key.
func (c *conn) insert(table string, columns []column) error {
	_, err := c.change("INSERT OR REPLACE INTO "+table+" ("+names(columns)+") VALUES ("+placeholders(len(columns))+")", values(columns)...)
	return err
}

// update sets the columns in the one row of a table.
func (c *conn) update(table string, columns []column) error {
	_, err := c.change("UPDATE "+table+" SET ("+names(columns)+") = ("+placeholders(len(columns))+") WHERE id = 1", values(columns)...)
	return err
}

func pragma(name string, value int64) string {
	return "PRAGMA " + name + " = " + strconv.FormatInt(value, 10)
}
