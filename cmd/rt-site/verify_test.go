package main

import (
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// finished registers a run with rows that are too large for the registry, and finishes it.
func finished(t *testing.T, s http.Handler, registration string) (id string) {
	t.Helper()
	var run struct {
		ID string `json:"run_id"`
	}
	if err := json.Unmarshal(send(s, http.MethodPost, "/runs", testToken, registration).Body.Bytes(), &run); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 100<<10)
	rand.Read(random)
	body := `{"run_status":"finished","data_source":"inline","data_csv":"a\n` + hex.EncodeToString(random) + `\n"}`
	if w := send(s, http.MethodPost, "/runs/"+run.ID+"/finish", testToken, body); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return run.ID
}

// rtSite runs the program on a directory.
func rtSite(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, messages strings.Builder
	status = run(t.Context(), append([]string{"--config", os.DevNull, "--dir", dir}, args...), &out, &messages)
	return status, out.String(), messages.String()
}

// verify works while the service is running, and its exit status says whether something is damaged.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	s, end := open(t, config.Serve{Dir: dir})
	defer end()
	id := finished(t, s, "{}")
	if status, out, messages := rtSite(t, dir, "verify"); status != 0 || !strings.HasPrefix(out, "checked 1 runs with 1 objects, ") || messages != "" {
		t.Errorf("%d %q %q", status, out, messages)
	}
	files, err := filepath.Glob(filepath.Join(dir, "objects", id, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	status, out, messages := rtSite(t, dir, "verify")
	if status != 65 || !strings.HasPrefix(out, "BAD  run "+id+": object inline.csv.gz, in the object store "+id+"/") || !strings.Contains(out, ": it is missing\n     restore it from a backup") {
		t.Errorf("%d %q", status, out)
	}
	if messages != "rt-site: the data of the site are damaged: 1 problems were found\n" {
		t.Errorf("%q", messages)
	}
	status, out, _ = rtSite(t, dir, "verify", "--json")
	var got struct {
		Runs, Damaged int
		Damage        []struct {
			Run string `json:"run_id"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 65 || got.Runs != 1 || got.Damaged != 1 || got.Damage[0].Run != id {
		t.Errorf("%d %s %v", status, out, err)
	}
}

// verify creates no site, and a file that is no database is damage.
func TestVerifyWithoutASite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if status, out, messages := rtSite(t, dir, "verify"); status != 1 || out != "" || !strings.Contains(messages, "there is no site at serve.dir: ") {
		t.Errorf("%d %q %q", status, out, messages)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("it made the directory:", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "registry.db"), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, messages := rtSite(t, dir, "verify"); status != 65 {
		t.Errorf("%d %q", status, messages)
	}
}

// While runs are delivered and records are replaced, nothing is damaged.
func TestVerifyDuringDeliveries(t *testing.T) {
	dir := t.TempDir()
	l := newLoaded(t, config.Serve{Dir: dir})
	times := 5
	if testing.Short() { // each takes longer than the one before it
		times = 2
	}
	l.during(t, func() {
		for range times {
			if status, out, messages := rtSite(t, dir, "verify"); status != 0 {
				t.Errorf("%d %s%s", status, out, messages)
			}
		}
	})
}

// The database of another version is neither changed nor damaged.
func TestTablesOfAnotherVersion(t *testing.T) {
	for change, want := range map[string]string{"- 1000": "before the first release, 0.2.0", "+ 1000": "use the version of rt-site that rt-site serve has"} {
		dir, _ := newSite(t)
		path := filepath.Join(dir, "registry.db")
		inDatabase(t, path, "UPDATE goose_db_version SET version_id = version_id "+change)
		for _, args := range [][]string{{"verify"}, {"forget", "--user", "alice"}, {"hold", "--for", "1h"}} {
			status, out, messages := rtSite(t, dir, args...)
			if status != 1 || out != "" || !strings.Contains(messages, want) {
				t.Errorf("%q: %d %q %q", args, status, out, messages)
			}
		}
		inDatabase(t, path, "UPDATE goose_db_version SET version_id = version_id - ("+change+")")
		if status, out, messages := rtSite(t, dir, "verify"); status != 0 || !strings.HasPrefix(out, "checked 2 runs") {
			t.Errorf("%d %q %q", status, out, messages)
		}
	}
}

// A file that is no site gets no tables.
func TestADatabaseWithoutTables(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	inDatabase(t, filepath.Join(dir, "registry.db"), "CREATE TABLE other (x)")
	if status, _, messages := rtSite(t, dir, "verify"); status != 1 || !strings.Contains(messages, "which rt-site serve creates when it starts: no such table: goose_db_version") {
		t.Errorf("%d %q", status, messages)
	}
	inDatabase(t, filepath.Join(dir, "registry.db"), "CREATE TABLE run (x)") // there is none yet
}

// inDatabase executes a statement in a SQLite file.
func inDatabase(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err == nil {
		_, err = db.Exec(statement)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
