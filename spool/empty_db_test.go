package spool

import (
	"database/sql/driver"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write schema/new.db again")

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
	return data, path
}

// A new file is what schema/spool.sql makes, with the program's SQLite to the byte.
func TestTemplate(t *testing.T) {
	const kept = "schema/new.db"
	made, path := fromSQL(t)
	if *update {
		if err := os.WriteFile(kept, made, 0o644); err != nil {
			t.Fatal(err)
		}
		emptyDB = string(made)
	}
	if diff := cmp.Diff(schemaOf(t, path), schemaOf(t, kept)); diff != "" {
		t.Errorf("%s is not what schema/spool.sql makes (-), run the test with -update: %s", kept, diff)
	}
	if string(made) != emptyDB {
		t.Errorf("the bytes of %s, %d, are not those that schema/spool.sql makes, %d: run the test with -update", kept, len(emptyDB), len(made))
	}
}
