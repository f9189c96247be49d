package spool

import (
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write schema/new.db again")

var comments = regexp.MustCompile(`(?m) *--.*\n?$`)

// schemaSQL is schema/spool.sql without its comments, which SQLite would store in each file.
func schemaSQL(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("schema/spool.sql")
	if err != nil {
		t.Fatal(err)
	}
	return comments.ReplaceAllString(string(text), "")
}

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

// emptyDB is what schema/spool.sql makes.
func TestTemplate(t *testing.T) {
	const kept = "schema/new.db"
	made := filepath.Join(t.TempDir(), "new.db")
	c, err := openConn(made, url.Values{"mode": {"rwc"}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.exec(pragma("page_size", pageSize) + "; PRAGMA auto_vacuum = INCREMENTAL; " + pragma("application_id", applicationID) + "; " +
		pragma("user_version", firstVersion) + ";" + schemaSQL(t) + "VACUUM")
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if *update {
		data, err := os.ReadFile(made)
		if err == nil {
			err = os.WriteFile(kept, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		emptyDB = string(data)
	}
	path := filepath.Join(t.TempDir(), "new.db")
	if err := os.WriteFile(path, []byte(emptyDB), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemaOf(t, made), schemaOf(t, path)); diff != "" {
		t.Errorf("%s is not what schema/spool.sql makes (-), run the test with -update: %s", kept, diff)
	}
}
