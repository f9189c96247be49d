package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// lostTracker returns a copy of the file of a tracked run with so many snapshots. Its files look as
// if the tracker was killed.
func lostTracker(t *testing.T, snapshots int, withLog bool) string {
	t.Helper()
	w := mustCreate(t, Options{})
	m := newMachine(2, 0)
	for range snapshots {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(w.Path()))
	for _, suffix := range []string{"", "-wal"} {
		if suffix != "" && !withLog {
			continue
		}
		// To read the database itself would drop the locks of the writer, which ends here.
		data, err := os.ReadFile(w.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func saysMissing(problems []Problem) bool {
	return len(problems) == 1 && strings.HasPrefix(problems[0].What, "the WAL of this run is missing: snapshots after number ")
}

// A run without an end is copied without its log. Verify says so however often the file is opened,
// and the ledger keeps it after the run is closed.
func TestAMissingLogIsSaid(t *testing.T) {
	path := lostTracker(t, 470, false)
	for range 3 {
		if _, err := List(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, path)
		if problems := r.Verify(t.Context()); !saysMissing(problems) {
			t.Errorf("verify: %v", problems)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := mustOpen(t, path)
	last, err := r.LastSeq()
	if err != nil || last == 0 || last >= 470 {
		t.Errorf("the test wants some of 470 snapshots: %d, %v", last, err)
	}
	if err := r.CloseLost(rt.Exit{Time: start}, ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
	if problems := mustOpen(t, path).Verify(t.Context()); !saysMissing(problems) {
		t.Errorf("verify of the run that was closed: %v", problems)
	}
}

// With its log the file is whole, however often it was read before, and a reader
// leaves the log in place.
func TestALogThatIsThereIsNotMissed(t *testing.T) {
	path := lostTracker(t, 200, true)
	for range 3 {
		if _, err := List(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, path)
		problems := r.Verify(t.Context())
		n, err := r.Count()
		if len(problems) > 0 || n != 200 || err != nil {
			t.Errorf("%d snapshots, %v, %v", n, problems, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := mustOpen(t, path)
	if err := r.CloseLost(rt.Exit{Time: start}, ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
	if problems := mustOpen(t, path).Verify(t.Context()); len(problems) > 0 {
		t.Errorf("verify of the run that was closed: %v", problems)
	}
}

// A tracker that gives its file up without an end has lost nothing.
func TestAClosedWriterLeavesItsLog(t *testing.T) {
	w := mustCreate(t, Options{})
	if err := w.Put(newMachine(2, 0).next()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if problems := mustOpen(t, w.Path()).Verify(t.Context()); len(problems) > 0 {
		t.Errorf("verify: %v", problems)
	}
}

// What this version cannot read keeps its log, however often it is tried: for one that can.
func TestALogThatCannotBeReadStays(t *testing.T) {
	for sql, want := range map[string]error{
		"PRAGMA user_version = 99": ErrNewer,
		"DROP TABLE host":          ErrDamaged,
		"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'x' WHERE name = 'host'": ErrDamaged, // SQLite itself refuses it
	} {
		path := lostTracker(t, 200, true)
		alterLogged(t, path, sql)
		before, err := os.ReadFile(path + "-wal")
		if err != nil || len(before) == 0 {
			t.Fatalf("no log: %v", err)
		}
		for range 2 {
			if entries, err := List(filepath.Dir(path)); err != nil || !errors.Is(entries[0].Err, want) {
				t.Errorf("%s: %+v, %v", sql, entries, err)
			}
			if _, err := Open(path); !errors.Is(err, want) {
				t.Errorf("%s: %v", sql, err)
			}
		}
		if after, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the log has %d bytes, had %d, %v", sql, len(after), len(before), err)
		}
		if want != ErrNewer {
			continue
		}
		alterLogged(t, path, pragma("user_version", int64(newest())))
		r := mustOpen(t, path)
		if n, err := r.Count(); n != 200 || err != nil || len(r.Verify(t.Context())) > 0 {
			t.Errorf("to a reader of this version: %d snapshots, %v, %v", n, err, r.Verify(t.Context()))
		}
	}
}

// alterLogged runs statements on a database and leaves its log.
func alterLogged(t *testing.T, path, sql string) {
	t.Helper()
	c, err := openConn(path, map[string][]string{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.keepLog(true), c.exec(sql), c.Close()); err != nil {
		t.Fatal(err)
	}
}
