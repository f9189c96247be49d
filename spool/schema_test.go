package spool

import (
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/resource-tracker/rt"
)

// schemaSQL is schema/spool.sql with the lists of columns from the table of figures.
func schemaSQL(t *testing.T) string {
	t.Helper()
	list := func(table string, prefix, separator string) string {
		var names []string
		for i, c := range deltaColumns {
			if deltaTables[c.table] == table {
				name := prefix + c.name
				if i >= numSums && prefix == "" {
					name += " REAL"
				}
				names = append(names, name)
			}
		}
		return strings.Join(names, separator)
	}
	funcs := template.FuncMap{
		"columns": func(table string) string { return list(table, "", ",\n  ") },
		"joined":  func(table, alias string) string { return list(table, alias+".", ", ") },
		"sums":    func() string { return strings.Join(columnNames(sumColumns()), ",\n  ") },
		"added":   addedSQL,
	}
	text, err := os.ReadFile("schema/spool.sql")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := template.Must(template.New("spool.sql").Funcs(funcs).Parse(string(text))).Execute(&out, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func sumColumns() []int {
	list := make([]int, numSums)
	for i := range list {
		list[i] = i
	}
	return list
}

// addedSQL lists the figures of the view snapshot: the sums of the differences up to each row, NULL
// where the figure was not read. A table other than the first has no row where nothing changed, so
// that its last row counts.
func addedSQL() string {
	window := [numTables]string{rt.Steady: "sw", rt.TreeOnly: "tw", rt.GPUOnly: "gw"}
	var list []string
	for i, c := range deltaColumns {
		read := c.name
		if w := window[c.table]; w != "" {
			read = "first_value(" + c.name + ") OVER " + w
		}
		switch {
		case i == colBoot, i == colClock:
		case i >= numSums:
			list = append(list, read+" AS "+c.name)
		default:
			list = append(list, "iif("+read+" IS NULL, NULL, sum("+c.name+") OVER w) AS "+c.name)
		}
	}
	return strings.Join(list, ",\n  ")
}

// withSecondVersion makes a file of the first version and then adds a migration for the rest of the test.
func withSecondVersion(t *testing.T) (path string) {
	t.Helper()
	r := stored(t, Options{}, []*rt.Snapshot{{Boot: 1000}})
	if err := errors.Join(r.SaveRegistration(rt.Registration{Endpoint: "http://r"}), r.Close()); err != nil {
		t.Fatal(err)
	}
	before := migrations
	t.Cleanup(func() { migrations = before })
	migrations = append(slices.Clone(before), "ALTER TABLE registration ADD COLUMN added TEXT; UPDATE registration SET added = endpoint;")
	return r.Path()
}

// isVersion asserts the version of a file, and that everything in it can be read.
func isVersion(t *testing.T, path string, want int) {
	t.Helper()
	r := mustOpen(t, path)
	v, err := r.db.queryInt("PRAGMA user_version")
	if err != nil || v != int64(want) || r.version != want {
		t.Errorf("version %d of the file, %d of the reader, want %d, %v", v, r.version, want, err)
	}
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	if reg, ok, err := r.Registration(); !ok || reg.Endpoint != "http://r" || err != nil {
		t.Errorf("registration %+v, %v, %v", reg, ok, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A file of an older version is migrated when it is opened, once.
func TestAFileOfAnOlderVersionIsMigrated(t *testing.T) {
	path := withSecondVersion(t)
	isVersion(t, path, firstVersion+1)
	if got := view(t, mustOpen(t, path), "SELECT added FROM registration"); got != "http://r\n" {
		t.Errorf("the migration has not changed the rows: %q", got)
	}
	isVersion(t, path, firstVersion+1)
}

// A program that does not have the migration refuses the file.
func TestAFileOfANewerVersionIsRefused(t *testing.T) {
	path := withSecondVersion(t)
	isVersion(t, path, firstVersion+1)
	migrations = nil
	if _, err := Open(path); !errors.Is(err, ErrNewer) {
		t.Errorf("open: %v", err)
	}
}

// A file that must not or cannot be changed is read as it is.
func TestAFileOfAnOlderVersionIsReadAsItIs(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		path := withSecondVersion(t)
		lock, err := lockRun(path)
		if err != nil {
			t.Fatal(err)
		}
		isVersion(t, path, firstVersion)
		if err := lock.release(true); err != nil {
			t.Fatal(err)
		}
		isVersion(t, path, firstVersion+1)
	})
	t.Run("locked", func(t *testing.T) {
		path := withSecondVersion(t)
		c, err := openConn(path, url.Values{"mode": {"rw"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.exec("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		isVersion(t, path, firstVersion)
	})
}

// A migration that fails changes nothing.
func TestAMigrationThatFails(t *testing.T) {
	path := withSecondVersion(t)
	migrations[len(migrations)-1] += "SELECT no_such_column FROM registration;"
	isVersion(t, path, firstVersion)
}

// TestSchemaOfVersion holds the version that --version prints to that of the files.
func TestSchemaOfVersion(t *testing.T) {
	if newest() != rt.SpoolSchema {
		t.Errorf("spool files have version %d, rt.SpoolSchema is %d", newest(), rt.SpoolSchema)
	}
}
