package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
)

// commands returns the commands of an example in the man page that has a word, with other places.
func commands(t *testing.T, word string, places ...string) []string {
	t.Helper()
	page, err := os.ReadFile("../../man/rt-site.8")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`\-`, "-", `\e`, `\`).Replace(string(page))
	for _, example := range regexp.MustCompile(`(?s)\.EX\n(.*?)\n\.EE`).FindAllStringSubmatch(text, -1) {
		if strings.Contains(example[1], word) {
			whole := strings.ReplaceAll(example[1], "|\n", "|")
			return strings.Split(strings.NewReplacer(places...).Replace(whole), "\n")
		}
	}
	t.Fatalf("the man page has no example with %s", word)
	return nil
}

// shell executes commands in one shell, and calls between after each line.
func shell(t *testing.T, lines []string, between func()) {
	t.Helper()
	path := filepath.Dir(program(t)) + ":" + os.Getenv("PATH")
	dir := ""
	for _, line := range lines {
		if _, where, isCd := strings.Cut(line, "cd "); isCd {
			dir = strings.TrimSpace(where)
		}
		cmd := exec.Command("sh", "-c", "set -e; umask 077; "+line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		between()
	}
}

// loaded is a site on which runs are delivered, as a receiver stores them.
type loaded struct {
	st      *sitestores.Stores
	objects heldObjects
	run     rt.Run
	record  []byte
	next    int
}

func (l *loaded) id() string { return fmt.Sprintf("20261101t120000-%026d", l.next) }

// put stores an object in the object store, and deletes the one that it replaces.
func (l *loaded) put(ctx context.Context, id, name string, class site.Class, content []byte, record *rt.Run) error {
	sum := sha256.Sum256(content)
	o := site.Object{RunID: id, Name: name, Class: class, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), Created: time.Now()}
	if class == site.ClassRecord {
		o.Signed = time.Now()
	}
	o.Stored = o.NewStoredName()
	if err := l.objects.Put(ctx, o.Stored, o.Bytes, bytes.NewReader(content)); err != nil {
		return err
	}
	replaced, err := l.st.Registry.Runs.PutObject(ctx, o, nil, record)
	if err == nil && replaced != "" {
		err = l.objects.Delete(ctx, replaced)
	}
	return err
}

// step delivers a run, and replaces the records of the runs before it.
func (l *loaded) step(ctx context.Context) error {
	id := l.id()
	err := l.st.Registry.Runs.Create(ctx, site.StoredRun{ID: id, Owner: "o", Created: time.Now(), Metadata: []byte("{}")})
	if err == nil {
		err = l.put(ctx, id, site.RecordName, site.ClassRecord, l.record, &l.run)
	}
	if err == nil {
		_, err = l.st.Registry.Runs.Finish(ctx, id, site.Finish{RunStatus: "finished", DataSource: "s3"}, nil, nil)
	}
	now := l.next
	defer func() { l.next = now + 1 }()
	for back := 1; back <= 3 && err == nil && l.next > 0; back++ {
		l.next--
		err = l.put(ctx, l.id(), site.RecordName, site.ClassRecord, l.record, &l.run)
	}
	return err
}

// newLoaded opens a site and delivers some runs.
func newLoaded(t *testing.T, conf config.Serve) *loaded {
	t.Helper()
	st, err := sitestores.Open(t.Context(), conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	started(t, st)
	l := &loaded{st: st, objects: heldObjects{st.Objects, st.Registry.Settings}}
	l.run, _, l.record = recordOf(t, "alice")
	for range 10 {
		l.must(t)
	}
	return l
}

// started marks the object store as a service does when it starts.
func started(t *testing.T, st *sitestores.Stores) {
	t.Helper()
	s, err := api.New(t.Context(), api.Config{Registry: st.Registry, Objects: st.Objects, Tokens: []api.Token{{}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func (l *loaded) must(t *testing.T) {
	t.Helper()
	if err := l.step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// during calls f while runs are delivered.
func (l *loaded) during(t *testing.T, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = l.step(context.WithoutCancel(ctx))
		}
		ended <- err
	}()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	defer stop()
	f()
}

// confOf returns a configuration file.
func confOf(t *testing.T, s config.Serve) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rt.toml")
	text := fmt.Sprintf("[serve]\ndatabase = %q\ndir = %q\n", s.Database, s.Dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runs returns the ids of all runs of a site.
func runs(t *testing.T, st *sitestores.Stores) []string {
	t.Helper()
	ids, err := st.Registry.Runs.IDs(t.Context(), "", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// restored checks that a restored site has no damage, has the first runs of the original.
func restored(t *testing.T, conf config.Serve, first []string) {
	t.Helper()
	st, err := sitestores.Open(t.Context(), conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := runs(t, st)
	if len(got) < len(first) || strings.Join(got[:len(first)], " ") != strings.Join(first, " ") {
		t.Errorf("the backup has %d runs, and %d were there before", len(got), len(first))
	}
	for _, id := range got {
		objects, err := st.Registry.Objects.OfRun(t.Context(), id)
		if err != nil || len(objects) > 1 {
			t.Errorf("run %s has %d objects, %v", id, len(objects), err)
		}
	}
}

// A backup that is made as the man page says, during deliveries, has no damage. Without the hold the record that
// is replaced between the two copies would be missing.
func TestBackup(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("needs sqlite3, of the Debian package sqlite3: the man page's backup")
	}
	for _, isHeld := range []bool{true, false} {
		dir, backup := filepath.Join(t.TempDir(), "receiver"), t.TempDir()
		l := newLoaded(t, config.Serve{Dir: dir})
		var first []string
		lines := commands(t, "sqlite3", "/var/lib/rt/receiver", dir, "/backup", backup, "rt-site ", "rt-site --config "+confOf(t, config.Serve{Dir: dir})+" ")
		if !isHeld {
			copied := lines[:0]
			for _, line := range lines {
				isHoldOrVerify := strings.Contains(line, "rt-site")
				if !isHoldOrVerify {
					copied = append(copied, line)
				}
			}
			shell(t, copied, func() { l.must(t) })
			if status, out, _ := rtSite(t, backup, "verify"); status != 65 || !strings.Contains(out, "it is missing") {
				t.Errorf("without a hold: %d %s", status, out)
			}
			continue
		}
		for range 2 { // the second one replaces the first
			first = runs(t, l.st)
			l.during(t, func() { shell(t, lines, func() {}) })
		}
		if status, out, messages := rtSite(t, backup, "verify"); status != 0 {
			t.Errorf("%d %s%s", status, out, messages)
		}
		restored(t, config.Serve{Dir: backup}, first)
		if status, out, messages := rtSite(t, dir, "verify"); status != 0 {
			t.Errorf("after the backup: %d %s%s", status, out, messages)
		}
	}
}

// The same with PostgreSQL.
func TestBackupOfPostgreSQL(t *testing.T) {
	postgres.Need(t)
	server := newPostgreSQL(t)
	dir, backup := t.TempDir(), t.TempDir()
	l := newLoaded(t, config.Serve{Dir: dir, Database: server.URL("rt")})
	first := runs(t, l.st)
	conf := confOf(t, config.Serve{Dir: dir, Database: server.URL("rt")})
	places := func(database string) []string {
		return []string{"postgres://rt@db.example/rt", "'" + server.URL(database) + "'", "/backup", backup, "rt-site ", "rt-site --config " + conf + " "}
	}
	l.during(t, func() {
		shell(t, commands(t, "pg_dump", places("rt")...), func() {})
		copied := "find objects -name .new -prune -o -type f -print0 | tar --null -T - -cf - | tar -C " + backup + " -xf -"
		shell(t, append([]string{"cd " + dir, copied}, commands(t, "mv /backup/new.dump", places("rt")...)...), func() {})
	})
	shell(t, commands(t, "pg_restore", places("restored")...), func() {})
	if status, out, messages := rtSite(t, backup, "--config", confOf(t, config.Serve{Dir: backup, Database: server.URL("restored")}), "verify"); status != 0 {
		t.Errorf("%d %s%s", status, out, messages)
	}
	restored(t, config.Serve{Dir: backup, Database: server.URL("restored")}, first)
}

// A hold has an end.
func TestHoldNeedsADuration(t *testing.T) {
	dir, _ := newSite(t)
	for _, args := range [][]string{{"hold"}, {"hold", "--for", "169h"}, {"hold", "--for", "-1s"}} {
		if status, _, messages := rtSite(t, dir, args...); status != 2 || !strings.Contains(messages, "a duration from 0s to 168h") {
			t.Errorf("%q: %d %q", args, status, messages)
		}
	}
	for length, want := range map[string]string{"1h": "stay in the object store until 20", "0s": "are deleted at once\n"} {
		if status, out, messages := rtSite(t, dir, "hold", "--for", length); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%d %q %q", status, out, messages)
		}
	}
}
