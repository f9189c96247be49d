package spool

import (
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
)

var update = flag.Bool("update", false, "write schema/new.db and schema/views.sql again")

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
	err = c.each("SELECT type, name, tbl_name, sql, iif(type = 'view', rootpage, NULL) FROM sqlite_schema ORDER BY type, name", nil, func(row []driver.Value) error {
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

// fromSQL is the path of the database that schema/spool.sql makes.
func fromSQL(t *testing.T) string {
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
	closedBytes(t, c, err, path)
	return path
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

// A new file and the views that are inserted later are what schema/spool.sql makes, with the program's SQLite to the byte.
func TestTemplate(t *testing.T) {
	const kept, keptViews = "schema/new.db", "schema/views.sql"
	whole := fromSQL(t)
	made, views := withoutViews(t, whole)
	if *update {
		if err := errors.Join(os.WriteFile(kept, made, 0o644), os.WriteFile(keptViews, []byte(views), 0o644)); err != nil {
			t.Fatal(err)
		}
		emptyDB, viewsSQL = string(made), views
	}
	if diff := cmp.Diff(views, viewsSQL); diff != "" {
		t.Errorf("%s has not the views that schema/spool.sql makes (-), run the test with -update: %s", keptViews, diff)
	}
	if string(made) != emptyDB {
		t.Errorf("the bytes of %s, %d, are not those that schema/spool.sql makes, %d: run the test with -update", kept, len(emptyDB), len(made))
	}
	path := filepath.Join(t.TempDir(), "new.db")
	if err := os.WriteFile(path, []byte(emptyDB), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, url.Values{"mode": {"rw"}})
	if err == nil {
		err = errors.Join(c.addViews(), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemaOf(t, whole), schemaOf(t, path)); diff != "" {
		t.Errorf("%s with the views is not what schema/spool.sql makes (-), run the test with -update: %s", kept, diff)
	}
}

// withoutViews returns the bytes of a copy of a database without its views, and the statement that inserts them.
func withoutViews(t *testing.T, whole string) (db []byte, insert string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tables.db")
	data, err := os.ReadFile(whole)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, url.Values{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	var create, drop string
	err = c.each("SELECT name, sql, printf('(%Q, %Q, %Q, %d, %Q)', type, name, tbl_name, rootpage, sql) FROM sqlite_schema WHERE type = 'view' ORDER BY length(sql)", nil, func(row []driver.Value) error {
		drop += fmt.Sprintf("DROP VIEW %s;", row[0])
		if create == "" {
			create = fmt.Sprint(row[1])
			return nil
		}
		rows = append(rows, fmt.Sprint(row[2]))
		return nil
	})
	if err == nil {
		err = c.exec(drop + "VACUUM")
	}
	insert = "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES\n" + strings.Join(rows, ",\n") + ";\n" + create + ";\n"
	return closedBytes(t, c, err, path), insert
}
