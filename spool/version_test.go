package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// schemaSums has the checksum of the statements of each version of the tables, and of the columns of the record.
var schemaSums = map[string]string{
	"spool file 2": "128dd579476c0b35",
	"record 2":     "3138f1b79ca5c58e",
}

// A statement of the schema, or a column of the record, does not change without its number.
func TestSchemaHasItsNumber(t *testing.T) {
	known, err := knownTables()
	if err != nil {
		t.Fatal(err)
	}
	statements := schemaSQL(t) + strings.Join(migrations, "\n")
	for name, text := range map[string]string{
		fmt.Sprintf("spool file %d", newest()):                        strings.Join(strings.Fields(statements), " "),
		strings.TrimSpace(strings.Replace(recordMagic, "rt ", "", 1)): string(packTables(known)),
	} {
		sum := sha256.Sum256([]byte(text))
		if got := hex.EncodeToString(sum[:8]); got != schemaSums[name] {
			t.Errorf("the schema %q has the checksum %s, not %q: until 0.2.0 is released, write the new one into schemaSums; after that, add a migration and a number", name, got, schemaSums[name])
		}
	}
}

// old returns a copy of a file that the program of commit 24aa1dce has written, before the first release.
func old(t *testing.T, name string) (path string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/before-0.2.0")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// files returns the checksums of the files in a directory, without SQLite's caches of logs.
func files(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		isCache := d != nil && strings.HasSuffix(path, "-shm")
		if err != nil || d.IsDir() || isCache {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		fmt.Fprintf(&all, "%s %x\n", path, sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A file of before the first release is not damaged: the message says which program wrote it, and that it must deliver it.
func TestFilesOfBeforeTheFirstRelease(t *testing.T) {
	for _, name := range []string{"ended.db", "killed.db"} {
		path := old(t, name)
		before := files(t, filepath.Dir(path))
		_, err := Open(path)
		if !errors.Is(err, ErrOld) || !IsIntact(err) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{path, "rt 0.1.0", "0.2.0", "deliver"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: no %q in %v", name, want, err)
			}
		}
		for _, not := range []string{"damaged", "move", "newer"} {
			if strings.Contains(fmt.Sprint(err), not) {
				t.Errorf("%s: %q in %v", name, not, err)
			}
		}
		entries, err := List(filepath.Dir(path))
		if err != nil || len(entries) != 2 || !errors.Is(entries[0].Err, ErrOld) || !errors.Is(entries[1].Err, ErrOld) {
			t.Errorf("the list: %+v, %v", entries, err)
		}
		if after := files(t, filepath.Dir(path)); after != before {
			t.Errorf("%s: the files were\n%s, and are\n%s", name, before, after)
		}
	}
}

// A file of another version names no program that it does not have, and runs no view.
func TestWhoWroteAFileComesFromAnySource(t *testing.T) {
	for statement, want := range map[string]string{
		"UPDATE run SET tracker_version = 'x' || char(10, 27) || 'y'":           "rt x??y wrote it",
		"UPDATE run SET tracker_version = NULL":                                 "another version of rt wrote it",
		"DROP TABLE run; CREATE VIEW run AS SELECT 'forged' AS tracker_version": "another version of rt wrote it",
		"DROP TABLE run": "another version of rt wrote it",
		"UPDATE run SET tracker_version = replace(hex(zeroblob(1000)), '00', 'x')": strings.Repeat("x", 64) + " wrote it",
	} {
		path := old(t, "ended.db")
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, altered(t, data, statement), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrOld) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A disk that fails is not a damaged file.
func TestAFailingDiskIsNoDamage(t *testing.T) {
	for name, err := range map[string]error{
		"SQLite":       describe("x.db", sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrRead}),
		"a query":      refused("x.db", fmt.Errorf("read: %w", sqlite3.Error{Code: sqlite3.ErrIoErr})),
		"SQLite opens": describe("x.db", sqlite3.Error{Code: sqlite3.ErrCantOpen, SystemErrno: syscall.EIO}),
		"a read":       refused("x.db", &fs.PathError{Op: "read", Path: "x.db", Err: syscall.EIO}),
	} {
		isWrong := errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "move it away")
		if !errors.Is(err, ErrIO) || !IsIntact(err) || isWrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
