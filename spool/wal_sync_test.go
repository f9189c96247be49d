package spool

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt"
)

// The log is synced once a minute of the run. The locks of SQLite on the database stay, because a
// descriptor of the log drops none.
func TestTheLogIsSyncedOnceAMinute(t *testing.T) {
	synctest.Test(t, syncEachMinute)
}

func syncEachMinute(t *testing.T) {
	w := mustCreate(t, Options{})
	r := mustOpen(t, w.Path())
	var s rt.Snapshot
	for minute := range int64(5) {
		s.Boot = (minute + 1) * int64(logSyncEvery)
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the goroutine that syncs has ended
		if n := w.sync.synced.Load(); n != minute+1 {
			t.Errorf("in minute %d the log was synced %d times", minute+1, n)
		}
	}
	if err := w.End(testRun()); err != nil { // the reader keeps its locks, so the log stays
		t.Fatal(err)
	}
	if _, err := os.Stat(w.Path() + "-wal"); err != nil {
		t.Errorf("the log was folded under a reader: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	w.sync.begin(filepath.Join(t.TempDir(), "x.db"), 1<<60) // no log: nothing happens
}
