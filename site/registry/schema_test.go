package registry

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/postgres"
)

// schemaSums has the checksum of the statements of each version of the tables.
var schemaSums = map[string]string{
	"00002_registry.sql": "695a2714c32a5790",
}

// A statement of the schema does not change without its number.
func TestSchemaHasItsNumber(t *testing.T) {
	files, err := migrations.ReadDir("migrations")
	if err != nil || len(files) != len(schemaSums) {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	for _, file := range files {
		text, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		statements := regexp.MustCompile("(?m)--.*$").ReplaceAllString(string(text), "")
		sum := sha256.Sum256([]byte(strings.Join(strings.Fields(statements), " ")))
		if got := hex.EncodeToString(sum[:8]); got != schemaSums[file.Name()] {
			t.Errorf("%s has the checksum %s, not %q: until 0.2.0 is released, write the new one into schemaSums; after that, add a migration", file.Name(), got, schemaSums[file.Name()])
		}
	}
}

// A registry of before the first release is refused with a message that says what it is.
func TestARegistryOfBeforeTheFirstRelease(t *testing.T) {
	f, err := os.Open("testdata/before-0.2.0.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, existing := range []bool{true, false} {
		_, err := Open(t.Context(), path, Config{Existing: existing})
		isClear := errors.Is(err, ErrSchema) && strings.Contains(err.Error(), "before the first release, 0.2.0")
		if !isClear || strings.Contains(err.Error(), "damaged") {
			t.Errorf("existing %t: %v", existing, err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(content) {
		t.Errorf("the database has changed: %v", err)
	}
}

// Tables of another version are refused, and so are tables with other columns and the same number. The message names
// the version that wrote them.
func TestTablesOfAnotherVersion(t *testing.T) {
	engines := []engine{{"SQLite", func(t testing.TB) string { return filepath.Join(t.TempDir(), "registry.db") }}}
	if postgres.Missing() == "" {
		engines = append(engines, engine{"PostgreSQL", newDatabase})
	}
	for _, database := range engines {
		for statement, want := range map[string]string{
			"ALTER TABLE run ADD COLUMN colour TEXT":                   "run.colour is not known",
			"ALTER TABLE run RENAME COLUMN metadata TO about":          "run.about is not known, run.metadata is missing",
			"DROP TABLE lake_gone":                                     "lake_gone.cluster is missing",
			"UPDATE goose_db_version SET version_id = version_id + 90": "wrote version 92",
		} {
			dsn := database.dsn(t)
			r, err := Open(t.Context(), dsn, Config{})
			if err != nil {
				t.Fatal(err)
			}
			err = r.db.change(t.Context(), "change the tables", func(tx transaction) error {
				_, err := tx.ExecContext(t.Context(), statement)
				return err
			})
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			for _, existing := range []bool{true, false} {
				_, err := Open(t.Context(), dsn, Config{Existing: existing})
				isNamed := strings.Contains(fmt.Sprint(err), want) && strings.Contains(fmt.Sprint(err), "rt-site "+rt.Version)
				if !errors.Is(err, ErrSchema) || !isNamed {
					t.Errorf("%s: %s: %v", database.name, statement, err)
				}
			}
		}
	}
}
