package spool

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a query without an end.
const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

// hostile is the file of an ended run that sql has changed.
func hostile(t testing.TB, data []byte, sql string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, url.Values{"mode": {"rw"}})
	if err == nil {
		err = errors.Join(c.exec(sql), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A schema that is not rt's is refused before any of its statements run.
func TestForeignSchemaIsRefused(t *testing.T) {
	data := endedFile(t, 3)
	for name, sql := range map[string]string{
		"view for the table run": "DROP TABLE run; CREATE VIEW run AS " + endless + "SELECT i AS id FROM n",
		"view for the table snapshot": "DROP TABLE snapshot; CREATE VIEW snapshot AS " + endless + "SELECT i AS seq, " +
			"1 AS reason, 1 AS job_phase, i AS boot_us, 0 AS wall_us FROM n",
		"trigger":          "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM batch; END",
		"index":            "CREATE INDEX i ON event (abs(id))",
		"further table":    "CREATE TABLE t (x)",
		"missing table":    "DROP TABLE record",
		"missing view":     "DROP VIEW step_total",
		"no view":          "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE type = 'view'",
		"generated column": "DROP TABLE record; CREATE TABLE record (id INTEGER PRIMARY KEY, time_us AS (id), source TEXT, body TEXT)",
		"other type":       "DROP TABLE record; CREATE TABLE record (id INTEGER PRIMARY KEY, time_us TEXT, source TEXT, body TEXT)",
		"two statements": "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT 'view', 'v' || name, name, sql, 0 " +
			"FROM sqlite_schema WHERE name = 'sample'",
	} {
		path := hostile(t, data, sql)
		r, err := Open(path)
		if err == nil {
			r.Close()
		}
		if !errors.Is(err, ErrForeign) && !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, err := List(filepath.Dir(path)); err != nil || len(entries) != 1 || entries[0].Err == nil {
			t.Errorf("%s: list: %+v, %v", name, entries, err)
		}
	}
}

// A value above the limit is refused, not read.
func TestValueAboveTheLimit(t *testing.T) {
	path := hostile(t, endedFile(t, 3), "UPDATE run SET job_name = zeroblob(30000000)")
	if _, err := Open(path); !errors.Is(err, ErrLimit) {
		t.Errorf("open: %v", err)
	}
}

// A table that takes too much memory is refused.
func TestTableAboveTheLimit(t *testing.T) {
	t.Parallel()
	path := hostile(t, endedFile(t, 3), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60) "+
		"INSERT INTO event (kind, detail) SELECT 'x', hex(zeroblob(500000)) FROM n")
	r := mustOpen(t, path)
	if _, err := r.Events(); !errors.Is(err, ErrLimit) {
		t.Errorf("events: %v", err)
	}
}

// A run of a year has more processes than the rows of other tables may take. It is not damaged.
func TestManyIdentities(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: a run with 300,000 processes")
	}
	path := hostile(t, endedFile(t, 3), "WITH RECURSIVE n(i) AS (SELECT 1000000 UNION ALL SELECT i + 1 FROM n LIMIT 300000) "+
		"INSERT INTO process (id, slot, pid, start_ticks, comm) SELECT i, 1, i, i, 'sh' FROM n")
	r := mustOpen(t, path)
	if n, _ := Readable(t.Context(), r); n != 3 {
		t.Errorf("%d snapshots can be read", n)
	}
	if problems := r.Verify(t.Context()); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}

// A file that is removed while it is read is not reported as damaged.
func TestRemovedWhileItIsRead(t *testing.T) {
	path := hostile(t, endedFile(t, 3), fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d) "+
		"INSERT INTO event (kind) SELECT 'x' FROM n", 2*sizeRows))
	r := mustOpen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := r.db.stream(t.Context(), "SELECT id FROM event", nil, func([]driver.Value) error { n++; return nil })
	if err != nil || n < 2*sizeRows {
		t.Errorf("%d rows, %v", n, err)
	}
}

// A file is closed if its open returns after the limit.
func TestLateOpenIsClosed(t *testing.T) {
	r := mustOpen(t, hostile(t, endedFile(t, 3), ""))
	synctest.Test(t, func(t *testing.T) {
		_, err := within(r.Path(), func() (*Reader, error) {
			time.Sleep(time.Hour)
			return r, nil
		})
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if r.db != nil {
			t.Error("it is open")
		}
	})
}

// An endless statement is interrupted, at the limit or when the context ends.
func TestEndlessStatementIsInterrupted(t *testing.T) {
	lowerLimit(t)
	r := mustOpen(t, hostile(t, endedFile(t, 3), ""))
	count := endless + "SELECT count(*) FROM n"
	if _, err := r.db.query(count); !errors.Is(err, ErrLimit) {
		t.Errorf("without a context: %v", err)
	}
	r.db.step = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.db.stream(ctx, count, nil, func([]driver.Value) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context: %v", err)
	}
}

// lowerLimit is for tests that run alone: each Reader of the package has the limit.
func lowerLimit(t *testing.T) {
	t.Helper()
	before := stepLimit
	stepLimit = 300 * time.Millisecond
	t.Cleanup(func() { stepLimit = before })
}

// A page that is its own descendant makes an endless table.
func TestCycleOfPages(t *testing.T) {
	lowerLimit(t)
	data := endedFile(t, 3)
	path := hostile(t, data, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300) INSERT INTO event (kind, detail) SELECT 'x', hex(zeroblob(300)) FROM n")
	c, err := openConn(path, url.Values{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := c.queryInt("SELECT rootpage FROM sqlite_schema WHERE name = 'event'")
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Under the root are 12 pages that each name the next one 90 times.
	top := data[(root-1)*pageSize : root*pageSize]
	if top[0] != interiorTable {
		t.Fatalf("the root of event is a page of type %d", top[0])
	}
	leaf := binary.BigEndian.Uint32(top[binary.BigEndian.Uint16(top[12:]):])
	next := uint32(len(data)/pageSize) + 1
	pointTo(top, next)
	for i := range 12 {
		page := bytes.Clone(top)
		if next++; i == 11 {
			next = leaf
		}
		pointTo(page, next)
		data = append(data, page...)
	}
	binary.BigEndian.PutUint32(data[28:], uint32(len(data)/pageSize))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, path)
	if _, err := r.Events(); !errors.Is(err, ErrLimit) {
		t.Errorf("events: %v", err)
	}
	if _, err := r.db.queryInt("SELECT count(*) FROM event"); !errors.Is(err, ErrLimit) {
		t.Errorf("count: %v", err)
	}
	if len(r.Verify(t.Context())) == 0 {
		t.Error("verify finds nothing")
	}
}

// interiorTable is the type of such a page, see "Database File Format" of SQLite.
const interiorTable = 5

// pointTo makes page an interior page with 90 cells, which all point to child.
func pointTo(page []byte, child uint32) {
	const cells = 90
	clear(page)
	page[0] = interiorTable
	binary.BigEndian.PutUint16(page[3:], cells)
	binary.BigEndian.PutUint16(page[5:], pageSize-cells*5)
	binary.BigEndian.PutUint32(page[8:], child)
	for i := range cells {
		at := pageSize - (i+1)*5
		binary.BigEndian.PutUint16(page[12+2*i:], uint16(at))
		binary.BigEndian.PutUint32(page[at:], child)
		page[at+4] = byte(i + 1)
	}
}

// SQLite deletes the file that a journal names, and writes to the files next to a database.
func TestJournalsOfOthers(t *testing.T) {
	data := endedFile(t, 3)
	for name, put := range map[string]func(path string) error{
		"super-journal": func(path string) error {
			return os.WriteFile(path+"-journal", []byte(strings.Repeat("x", 600)+superJournal), 0o600)
		},
		"symbolic link": func(path string) error { return os.Symlink("/dev/null", path+"-journal") },
		"hard link":     func(path string) error { return os.Link(path, path+"-wal") },
	} {
		path := hostile(t, data, "")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
