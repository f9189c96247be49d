package spool

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// withSecondVersion makes a file of the first version and then adds a migration for the rest of the test.
func withSecondVersion(t *testing.T) (path string) {
	t.Helper()
	r := stored(t, Options{}, []*rt.Snapshot{{Boot: 1000}})
	if err := errors.Join(r.Delivery().SaveRegistration(rt.Registration{Endpoint: "http://r"}), r.Close()); err != nil {
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
	if reg, ok, err := r.Delivery().Registration(); !ok || reg.Endpoint != "http://r" || err != nil {
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

// A new file has all migrations from the start, and the same statements as a file that was migrated.
func TestANewFileHasTheMigrations(t *testing.T) {
	migrated := withSecondVersion(t)
	isVersion(t, migrated, firstVersion+1)
	w := mustCreate(t, Options{})
	if v, err := w.db.queryInt("PRAGMA user_version"); err != nil || v != firstVersion+1 {
		t.Errorf("a new file has version %d, want %d, %v", v, firstVersion+1, err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	const statements = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
	got, want := view(t, mustOpen(t, w.Path()), statements), view(t, mustOpen(t, migrated), statements)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a new file has other statements (+) than one that was migrated (-): %s", diff)
	}
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

// TestSchemaOfVersion holds the version that --version prints to the version of the files.
func TestSchemaOfVersion(t *testing.T) {
	if newest() != rt.SpoolSchema {
		t.Errorf("spool files have version %d, rt.SpoolSchema is %d", newest(), rt.SpoolSchema)
	}
}
