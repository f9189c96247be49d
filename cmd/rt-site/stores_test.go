package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
)

// With the objects of another registry, nothing is checked and nothing is changed.
func TestObjectsOfAnotherSite(t *testing.T) {
	dir, conf := newSite(t)
	other, _ := newSite(t)
	objects := filepath.Join(dir, "objects")
	if err := os.Rename(objects, filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		for _, args := range [][]string{{"verify"}, {"forget", "--user", "alice"}, {"forget", "--user", "alice", "--pseudonym"}} {
			status, out, messages := rtSite(t, dir, append([]string{"--config", conf}, args...)...)
			if status != 78 || out != "" || !strings.Contains(messages, what) {
				t.Errorf("%q: %d %q %q", args, status, out, messages)
			}
		}
	}
	refused("there are no objects at serve.dir")
	if _, err := os.Stat(objects); !os.IsNotExist(err) {
		t.Error("it made the directory:", err)
	}
	if err := os.Mkdir(objects, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("the object store is not the one of this database: it has no object registry.sha256")
	marker, err := os.ReadFile(filepath.Join(other, "objects", "registry.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(objects, "registry.sha256"), marker, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("the object store is not the one of this database: it belongs to another one")
	if err := os.RemoveAll(objects); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "away"), objects); err != nil {
		t.Fatal(err)
	}
	if status, out, messages := rtSite(t, dir, "verify"); status != 0 || !strings.HasPrefix(out, "checked 2 runs with 2 objects") {
		t.Errorf("%d %q %q", status, out, messages)
	}
}

// Pseudonyms are put in the place of names also if the quota is full.
func TestForgetWithAFullQuota(t *testing.T) {
	dir, conf := newSite(t)
	st, err := sitestores.Open(t.Context(), config.Serve{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const id = "20261101t120000-cccccccccccccccccccccccccc"
	if err := st.Registry.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: "o", Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	large := site.Object{RunID: id, Name: "1", Class: site.ClassCSV, Bytes: 2 << 20, SHA256: "1", Stored: id + "/1", Created: time.Now()}
	if _, err := st.Registry.Runs.PutObject(t.Context(), large, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, append(text, "[serve]\nquota = \"1MiB\"\ntoken_quota = \"1MiB\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, messages := rtSite(t, dir, "--config", conf, "forget", "--user", "alice", "--pseudonym"); status != 0 || !strings.Contains(out, " alice: 1 runs with 1 objects, ") {
		t.Errorf("%d %q %q", status, out, messages)
	}
}
