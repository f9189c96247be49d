package spool

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// another opens the file as another program does.
func another(t *testing.T, path string) *conn {
	t.Helper()
	c, err := openConn(path, url.Values{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hasViews asserts how many views the connection sees, none or all, and reads the view sample if there is one.
func hasViews(t *testing.T, c *conn, want bool) {
	t.Helper()
	views := int64(0)
	if want {
		views = int64(strings.Count(viewsSQL, "CREATE VIEW "))
	}
	n, err := c.queryInt("SELECT count(*) FROM sqlite_schema WHERE type = 'view'")
	if err != nil || n != views {
		t.Errorf("%d views, want %d, %v", n, views, err)
	}
	_, err = c.query("SELECT * FROM sample JOIN process_total JOIN energy_total")
	if (err == nil) != want {
		t.Errorf("a query of the views: %v", err)
	}
}

// isSound asserts that our own reader reads all snapshots of a file, with or without views.
func isSound(t *testing.T, path string, snapshots int64) *Reader {
	t.Helper()
	r := mustOpen(t, path)
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	if n, _ := r.Readable(t.Context()); n != snapshots {
		t.Errorf("%d snapshots can be read, want %d", n, snapshots)
	}
	return r
}

// The views of a file come with its second commit of snapshots. Other connections read the schema again, and the tracker
// does not: that takes a millisecond.
func TestViewsComeWithTheSecondReading(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 1})
	m := newMachine(2, 1)
	opened := another(t, w.Path())
	hasViews(t, opened, false)
	for _, want := range []bool{false, true, true} {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
		w.Event(rt.Event{Kind: "job", Name: "cgroup"})
		hasViews(t, opened, want)
		hasViews(t, another(t, w.Path()), want)
		isSound(t, w.Path(), w.enc.state.seq)
	}
	if _, err := w.db.query("SELECT * FROM sample"); err == nil {
		t.Error("the tracker has parsed the views")
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	hasViews(t, isSound(t, w.Path(), 3).db, true)
}

// A file that is closed early has all views.
func TestViewsOfAShortRun(t *testing.T) {
	for snapshots := range 2 {
		for name, end := range map[string]func(*Writer) error{
			"end":   func(w *Writer) error { return w.End(testRun()) },
			"close": (*Writer).Close,
		} {
			w := mustCreate(t, Options{})
			m := newMachine(2, 1)
			for range snapshots {
				if err := w.Put(m.next()); err != nil {
					t.Fatal(err)
				}
			}
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			t.Log(name, snapshots)
			hasViews(t, isSound(t, w.Path(), int64(snapshots)).db, true)
		}
	}
}

// The file of a tracker that was killed after its first commit gets the views when the run is closed.
func TestViewsOfAKilledTracker(t *testing.T) {
	path := lostTracker(t, 1, true)
	r := isSound(t, path, 1)
	hasViews(t, r.db, false)
	if err := r.CloseLost(rt.Exit{}, "boot-1"); err != nil {
		t.Fatal(err)
	}
	hasViews(t, r.db, true)
	hasViews(t, isSound(t, path, 1).db, true)
}

// A migration finds the views, which a killed tracker has not written.
func TestMigrationOfAFileWithoutViews(t *testing.T) {
	path := lostTracker(t, 1, true)
	withSecondVersion(t)
	migrations[0] += "DROP VIEW step_total; CREATE VIEW step_total AS SELECT 1 AS step;"
	r := isSound(t, path, 1)
	if got := view(t, r, "SELECT step FROM step_total"); got != "1\n" || r.version != firstVersion+1 {
		t.Errorf("version %d, %q", r.version, got)
	}
}

// Without room for the views a reading is committed, and they come after the next one.
func TestViewsAfterAFailure(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 1})
	m := newMachine(2, 1)
	if err := w.Put(m.next()); err != nil {
		t.Fatal(err)
	}
	limit(t, w, 1)
	if err := w.Put(m.next()); err != nil || w.failing {
		t.Fatalf("put on a nearly full disk: failing is %v, %v", w.failing, err)
	}
	hasViews(t, another(t, w.Path()), false)
	limit(t, w, 1<<20)
	if err := w.Put(m.next()); err != nil || w.failing {
		t.Fatalf("put: failing is %v, %v", w.failing, err)
	}
	hasViews(t, another(t, w.Path()), true)
	isSound(t, w.Path(), 3)
}

// A view that another program has made before costs no reading.
func TestReadingsWithoutViews(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 1})
	m := newMachine(2, 1)
	if err := w.Put(m.next()); err != nil {
		t.Fatal(err)
	}
	other, err := openConn(w.Path(), url.Values{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.exec("CREATE VIEW net_reading AS SELECT 1"), other.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Put(m.next()); err != nil || w.failing {
			t.Fatalf("put: failing is %v, %v", w.failing, err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	n, err := another(t, w.Path()).queryInt("SELECT count(*) FROM snapshot_delta")
	if err != nil || n != 3 {
		t.Errorf("%d readings, want 3, %v", n, err)
	}
}

// A file with a part of the views is not ours, nor is one with a table less, whether it has views or not.
func TestFilesWithoutViewsAreChecked(t *testing.T) {
	data := endedFile(t, 3)
	const drop = "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE type = 'view'"
	if problems := mustOpen(t, hostile(t, data, drop)).Verify(t.Context()); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	for _, sql := range []string{
		drop + " AND name <> 'sample'",
		drop + "; DROP TABLE record",
		drop + "; DROP TABLE record; CREATE VIEW record AS SELECT 1 AS id",
		drop + "; CREATE TABLE t (x)",
		drop + "; CREATE VIEW v AS SELECT 1",
	} {
		path := hostile(t, data, sql)
		if r, err := Open(path); err == nil {
			t.Errorf("%s: it was opened", sql)
			r.Close()
		}
		if entries, err := List(filepath.Dir(path)); err != nil || len(entries) != 1 || entries[0].Err == nil {
			t.Errorf("%s: list: %+v, %v", sql, entries, err)
		}
	}
}

// The file of a record has the views, also if the run has not ended.
func TestViewsOfARecord(t *testing.T) {
	for _, state := range []rt.State{rt.StateRunning, rt.StateEnded} {
		w := mustCreate(t, Options{})
		if err := w.Put(newMachine(2, 1).next()); err != nil {
			t.Fatal(err)
		}
		if state == rt.StateEnded {
			if err := w.End(testRun()); err != nil {
				t.Fatal(err)
			}
		}
		r := restored(t, recordOf(t, mustOpen(t, w.Path())))
		hasViews(t, isSound(t, r.Path(), 1).db, true)
	}
}
