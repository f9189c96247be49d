package spool

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

var update = flag.Bool("update", false, "write schema/new.db and schema/fill.page again")

// schemaOf lists what a database is, without its rows, and how many those are.
func schemaOf(t *testing.T, path string) (list []string) {
	t.Helper()
	c, err := openConn(path, url.Values{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"page_size", "auto_vacuum", "application_id", "user_version", "encoding", "freelist_count", "journal_mode"} {
		row, err := c.query("PRAGMA " + name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %v", name, row))
	}
	var tables []string
	err = c.each("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name", nil, func(row []driver.Value) error {
		list = append(list, fmt.Sprintf("%v", row))
		if row[0] == "table" {
			tables = append(tables, fmt.Sprint(row[1]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tables {
		n, err := c.queryInt("SELECT count(*) FROM " + name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s has %d rows", name, n))
	}
	return list
}

// fromSQL is the bytes of the database that schema/spool.sql makes, and its path.
func fromSQL(t *testing.T) ([]byte, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new.db")
	c, err := openConn(path, url.Values{"mode": {"rwc"}})
	if err == nil {
		err = c.exec(pragma("page_size", pageSize) + "; PRAGMA auto_vacuum = INCREMENTAL; " + pragma("application_id", applicationID))
	}
	if err == nil {
		err = c.exec(schemaSQL(t) + pragma("user_version", int64(newest())))
	}
	if err == nil {
		err = c.exec("VACUUM")
	}
	return closedBytes(t, c, err, path), path
}

// closedBytes closes a database and returns its bytes. err is that of the statements before.
func closedBytes(t *testing.T, c *conn, err error, path string) []byte {
	t.Helper()
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A new file is what schema/spool.sql makes, with the program's SQLite to the byte.
func TestTemplate(t *testing.T) {
	const kept, keptPage = "schema/new.db", "schema/fill.page"
	made, path := fromSQL(t)
	page := fillPageOf(t, made)
	if *update {
		if err := errors.Join(os.WriteFile(kept, made, 0o644), os.WriteFile(keptPage, page, 0o644)); err != nil {
			t.Fatal(err)
		}
		emptyDB, fillPage = string(made), string(page)
	}
	if string(page) != fillPage {
		t.Errorf("%s is not the first page of a database with the tables run and host only: run the test with -update", keptPage)
	}
	if diff := cmp.Diff(schemaOf(t, path), schemaOf(t, kept)); diff != "" {
		t.Errorf("%s is not what schema/spool.sql makes (-), run the test with -update: %s", kept, diff)
	}
	if string(made) != emptyDB {
		t.Errorf("the bytes of %s, %d, are not those that schema/spool.sql makes, %d: run the test with -update", kept, len(emptyDB), len(made))
	}
}

// fillPageOf returns the first page of the database after all entries of the schema but those of the tables
// run and host are deleted.
func fillPageOf(t *testing.T, db []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fill.db")
	if err := os.WriteFile(path, db, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, url.Values{"mode": {"rw"}})
	if err == nil {
		err = c.exec("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name NOT IN ('run', 'host')")
	}
	data := closedBytes(t, c, err, path)
	return append(db[:headerBytes:headerBytes], data[headerBytes:pageSize]...)
}

// A file that is filled with fillPage as its first page is, to the byte, the one that is filled with the whole
// schema, also if the rows need more pages.
func TestFillPage(t *testing.T) {
	run, host := testRun(), rt.Host{HostName: "n1"}
	for _, name := range []string{"train", strings.Repeat("a long name ", 500)} {
		run.Meta.JobName, host.CPUModel = name, name
		dir := t.TempDir()
		whole, made := filepath.Join(dir, "whole.db"), filepath.Join(dir, "made.db")
		err := os.WriteFile(whole, []byte(emptyDB), 0o600)
		if err == nil {
			err = errors.Join(fillFile(whole, run, host), makeFile(made, run, host))
		}
		if err != nil {
			t.Fatal(err)
		}
		a, err1 := os.ReadFile(whole)
		b, err2 := os.ReadFile(made)
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%d bytes with the whole schema and %d with fillPage differ, %v, %v", len(a), len(b), err1, err2)
		}
	}
}
