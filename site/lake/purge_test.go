package lake

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
)

// A tag of an engine does not keep the rows of a forgotten user.
func TestForgetReachesTags(t *testing.T) {
	w := newWorld(t)
	r := w.put("r1", 7, day, 5)
	r.record.User = "mallory"
	write(t, w)
	for _, name := range []string{"runs", "samples"} {
		tag := table.NewSetSnapshotRefUpdate("audit", w.load(t, name).CurrentSnapshot().SnapshotID, table.TagRef, 0, 0, 0)
		if _, _, err := w.catalog(t).CommitTable(t.Context(), table.Identifier{namespace, name}, nil, []table.Update{tag}); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := w.opened(t).Forget(t.Context(), []string{"mallory"}, false); err != nil || done.Removed != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	nowhere(t, w, "mallory", r.Name)
	if refs := slices.Collect(maps.Keys(maps.Collect(w.load(t, "runs").Metadata().Refs()))); !slices.Equal(refs, []string{table.MainBranch}) {
		t.Errorf("the table has the branches and tags %q", refs)
	}
}

// Retention deletes no new file that no snapshot names: an engine may be about to commit it. Compact removes an old one.
func TestRetentionLeavesFilesOfEngines(t *testing.T) {
	w := newWorld(t)
	old := w.put("r1", 7, time.Now().Add(-50*24*time.Hour), 5)
	w.put("r2", 8, time.Now(), 5)
	write(t, w)
	dir := filepath.Dir(w.dataFiles(t, "runs")[0])
	newFile, oldFile := filepath.Join(dir, "new.parquet"), filepath.Join(dir, "old.parquet")
	for _, path := range []string{newFile, oldFile} {
		if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-orphanAge - time.Minute)
	if err := os.Chtimes(oldFile, before, before); err != nil {
		t.Fatal(err)
	}
	l := w.opened(t)
	if done, err := l.Write(t.Context()); err != nil || done.Expired != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	nowhere(t, w, old.Name)
	if _, err := l.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(newFile); err != nil {
		t.Errorf("a new file: %v", err)
	}
	if _, err := os.Stat(oldFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old file: %v", err)
	}
}

// If retention is killed anywhere, the next pass leaves no snapshot with rows of old runs. Files that only a killed purge has
// named leave after a day.
func TestRetentionIsKilled(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	for left := 0; ; left += step {
		w := newWorld(t)
		old := w.put("r1", 7, time.Now().Add(-50*24*time.Hour), 5)
		w.put("r2", 8, time.Now(), 5)
		write(t, w)
		l := w.opened(t)
		w.left = left
		_, err := l.Write(t.Context())
		isDead := w.isDead
		if err != nil && !isDead {
			t.Fatal(err)
		}
		once(t, w)
		hasBegun := len(w.load(t, "samples").Metadata().Snapshots()) == 1 && len(rows(t, w, "samples")) == 5
		l = w.opened(t)
		if _, err := l.Write(t.Context()); err != nil {
			t.Fatalf("after a kill at change %d: %v", left, err)
		}
		if hasBegun {
			w.age(t)
			if _, err := l.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		nowhere(t, w, old.Name)
		if n := len(rows(t, w, "runs")); n != 1 || t.Failed() {
			t.Fatalf("after a kill at change %d: %d runs", left, n)
		}
		if !isDead {
			return
		}
	}
}

// age makes all files older than those that Compact removes.
func (w *world) age(t *testing.T) {
	t.Helper()
	before := time.Now().Add(-orphanAge - time.Minute)
	err := filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, before, before))
	})
	if err != nil {
		t.Fatal(err)
	}
}
