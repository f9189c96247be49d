package spool

import (
	"database/sql/driver"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
)

// The limit of SQLite's memory holds for the whole process. It suffices for the files that a drain
// may have open at the same time, with full caches.
func TestManyFilesAtOnce(t *testing.T) {
	const files, snapshots = 2 * 64, 1500 // a drain has at most two readers of each of 64 runs
	w := mustCreate(t, Options{})
	m := newMachine(64, 1)
	for range snapshots {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 600<<10 { // the cache of a file is 512 KiB
		t.Fatalf("%d bytes do not fill a cache", len(data))
	}
	dir := t.TempDir()
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("job-%d.db", i))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, path)
		next, stop := iter.Pull2(r.Snapshots(t.Context(), 1, 0))
		defer stop()
		_, err, ok := next() // the statement stays open
		if err != nil || !ok {
			t.Fatalf("file %d: %v, %v", i+1, err, ok)
		}
		err = r.db.stream(t.Context(), "PRAGMA quick_check", nil, func([]driver.Value) error { return nil }) // reads all pages
		if err != nil {
			t.Fatalf("file %d: %v", i+1, err)
		}
	}
}
