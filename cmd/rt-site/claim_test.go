package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site/api"
)

// serveOnce starts the service with a configuration. The service ends at once if it must not start.
// Otherwise its address is refused, after it has claimed the object store.
func serveOnce(t *testing.T, conf config.Serve) (status int, messages string) {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "tokens")
	if err := os.WriteFile(token, []byte(testToken), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, messages = rtSite(t, conf.Dir, "--config", confOf(t, conf), "serve", "--listen", "192.0.2.1:1", "--token-file", token)
	return status, messages
}

// databaseCopy is a site with a copy of the database of another one.
type databaseCopy struct {
	original, restored config.Serve
	dump, restore      func()
}

func copyOfSQLite(t *testing.T) databaseCopy {
	dir, copyDir := t.TempDir(), t.TempDir()
	return databaseCopy{
		config.Serve{Dir: dir}, config.Serve{Dir: copyDir},
		func() { copyRegistry(t, dir, copyDir) },
		func() {
			if err := os.Symlink(filepath.Join(dir, "objects"), filepath.Join(copyDir, "objects")); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// copyRegistry copies the SQLite database of a site, as a backup does.
func copyRegistry(t *testing.T, dir, copyDir string) {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(dir, "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("VACUUM INTO ?", filepath.Join(copyDir, "registry.db"))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func copyOfPostgreSQL(t *testing.T) databaseCopy {
	server := newPostgreSQL(t)
	shared, backup := t.TempDir(), t.TempDir()
	run := func(format string, args ...any) func() {
		return func() { shell(t, []string{fmt.Sprintf(format, args...)}, func() {}) }
	}
	return databaseCopy{
		config.Serve{Dir: shared, Database: server.URL("rt")}, config.Serve{Dir: shared, Database: server.URL("restored")},
		run("pg_dump -Fc -f %s/registry.dump '%s'", backup, server.URL("rt")),
		run("pg_restore -eO -d '%s' %s/registry.dump", server.URL("restored"), backup),
	}
}

// newPostgreSQL starts a server with the empty databases rt and restored.
func newPostgreSQL(t *testing.T) *postgres.Server {
	t.Helper()
	server, err := postgres.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"rt", "restored"} {
		if err := server.Exec("CREATE DATABASE " + name); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

// The copy of a database is a test of a backup until the copy claims the objects. It removes
// nothing and does not start with the objects. The original goes on.
func TestACopyOfTheDatabase(t *testing.T) {
	copies := map[string]databaseCopy{"SQLite": copyOfSQLite(t)}
	if postgres.Missing() == "" {
		copies["PostgreSQL"] = copyOfPostgreSQL(t)
	}
	for name, tc := range copies {
		t.Run(name, func(t *testing.T) {
			at := func(s config.Serve, args ...string) (int, string, string) {
				return rtSite(t, s.Dir, append([]string{"--config", confOf(t, s)}, args...)...)
			}
			starts := func(s config.Serve) {
				t.Helper()
				if status, messages := serveOnce(t, s); status != 1 || !strings.Contains(messages, "192.0.2.1:1") {
					t.Errorf("%d %s", status, messages)
				}
			}
			refused := func(s config.Serve) {
				t.Helper()
				if status, messages := serveOnce(t, s); status != 78 || !strings.Contains(messages, "run rt-site claim") {
					t.Errorf("%d %s", status, messages)
				}
				for _, args := range [][]string{{"forget", "--user", "alice"}, {"hold", "--for", "1h"}} {
					if status, out, messages := at(s, args...); status != 78 || out != "" || !strings.Contains(messages, "another copy of this database has claimed it") {
						t.Errorf("%q: %d %s%s", args, status, out, messages)
					}
				}
				if status, out, messages := at(s, "verify"); status != 0 {
					t.Errorf("%d %s%s", status, out, messages)
				}
			}
			newLoaded(t, tc.original)
			tc.dump()
			if status, _, messages := at(tc.original, "hold", "--for", "0s"); status != 0 {
				t.Errorf("%d %s", status, messages)
			}
			tc.restore()
			refused(tc.restored)
			starts(tc.original)
			if status, out, messages := at(tc.restored, "claim"); status != 0 || !strings.Contains(out, "stay until 20") {
				t.Errorf("%d %s%s", status, out, messages)
			}
			refused(tc.original)
			starts(tc.restored)
		})
	}
}

// A site with objects does not start with an empty object store.
func TestAnEmptyObjectStore(t *testing.T) {
	dir, _ := newSite(t)
	conf := config.Serve{Dir: dir}
	objects := filepath.Join(dir, "objects")
	if err := os.Rename(objects, filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if status, messages := serveOnce(t, conf); status != 78 || !strings.Contains(messages, "check that the directory is mounted") {
		t.Errorf("%d %s", status, messages)
	}
	if status, out, messages := rtSite(t, dir, "claim"); status != 0 || !strings.HasPrefix(out, "the object store is that of this database; ") {
		t.Errorf("%d %s%s", status, out, messages)
	}
	if status, messages := serveOnce(t, conf); status != 1 || !strings.Contains(messages, "192.0.2.1:1") {
		t.Errorf("%d %s", status, messages)
	}
}

// A service ends when another copy of its database has claimed the objects.
func TestTheServiceEndsWithoutItsObjects(t *testing.T) {
	dir := t.TempDir()
	server, end := open(t, config.Serve{Dir: dir})
	defer end()
	path := filepath.Join(dir, "objects", "registry.sha256")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(string(text), " ")
	if err := os.WriteFile(path, []byte(name+" another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := log.New(io.Discard, "", 0)
	files := &secrets{conf: config.Serve{Dir: dir}, server: server, requests: &requestLog{log: newSparseLog(silent)}}
	err = files.serve(t.Context(), ln, server, silent)
	if frame.End(err, io.Discard) != 78 || !errors.Is(err, api.ErrNotOwner) {
		t.Errorf("%v", err)
	}
}
