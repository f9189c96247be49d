package lake

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// dataFiles returns the files of rows of a table.
func (w *world) dataFiles(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, name, "data", "*", "*", "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

// opened opens a lake that keeps a month.
func (w *world) opened(t *testing.T) *Lake {
	t.Helper()
	w.left = -1
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	l.Retain = 30 * 24 * time.Hour
	return l
}

// A file that cannot be read for a moment stays in its table: the site may have its runs no more. A damaged one leaves
// the table, but is not deleted.
func TestRebuildAfterAReadError(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, time.Now(), 5)
	write(t, w)
	w.runs["r1"].isLost = true // retention at the site
	l := w.opened(t)
	for _, failures := range []int64{1, 100} {
		var left atomic.Int64
		left.Store(failures)
		w.readError = func(name string) error {
			if strings.Contains(name, "/runs/data/") && left.Add(-1) >= 0 {
				return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
			}
			return nil
		}
		lost, err := l.Repair(t.Context())
		isReported := failures == 1 && err == nil || errors.Is(err, syscall.EMFILE)
		if !isReported || len(lost) != 0 {
			t.Errorf("%d failures: %v, %v", failures, lost, err)
		}
	}
	w.readError = func(string) error { return nil }
	if n := len(rows(t, w, "runs")); n != 1 {
		t.Errorf("%d runs after errors, want one", n)
	}
	damaged := w.dataFiles(t, "runs")[0]
	if err := os.Truncate(damaged, 100); err != nil {
		t.Fatal(err)
	}
	if lost, err := l.Repair(t.Context()); err != nil || len(lost) != 1 || !strings.Contains(lost[0].Error(), damaged) {
		t.Errorf("%v, %v; want %s", lost, err, damaged)
	}
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(rows(t, w, "runs")); n != 0 {
		t.Errorf("%d runs are in a damaged file", n)
	}
	if _, err := os.Stat(damaged); err != nil {
		t.Errorf("the damaged file: %v", err)
	}
}

// A rebuild after the loss of files of runs has the samples of each run once, and none of other runs.
func TestRebuildWithoutFilesOfRuns(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	w.put("r2", 8, day, 5)
	write(t, w)
	for _, path := range w.dataFiles(t, "runs") {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	w.runs["r1"].Changes++ // as the registry does in a rebuild
	w.runs["r2"].isLost = true
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := l.Repair(t.Context()); err != nil || len(lost) != 1 {
		t.Fatalf("%v, %v; want one file", lost, err)
	}
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	isCurrent(t, w)
}
