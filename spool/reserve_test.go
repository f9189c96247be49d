package spool

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
)

// Four trackers fill a disk without gc, and other programs use half of it. Each of them ends: they
// leave the space that thinning and the end of a run need. Without it all of them wait for space at
// the same time, for ever.
func TestTrackersOfAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: four trackers fill a disk of 4 MiB")
	}
	dir := spoolOnDisk(t, "4m", 2<<20)
	var jobs [4]smallJob
	var writers [len(jobs)]*Writer
	for i := range jobs {
		jobs[i].id = uint64(i + 1)
		writers[i] = jobs[i].begin(t, dir)
	}
	var wg sync.WaitGroup
	for i, w := range writers {
		wg.Go(func() { jobs[i].fill(t, w) })
	}
	wg.Wait()
	var stored int64
	for i := range jobs {
		stored += jobs[i].check(t, dir)
	}
	if stored == 0 {
		t.Error("no snapshot was thinned in a file")
	}
}

// spoolOnDisk makes a spool directory on a file system of a size. Other files take some bytes
// there.
func spoolOnDisk(t *testing.T, size string, other int64) (dir string) {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs root: mounts a tmpfs (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(disk, "other"), make([]byte, other), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(disk, "spool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A run that begins with less than the reserve is stored all the same. A tracker that is killed
// loses at most one commit, also if the file is small, thinned, or limited by the node's quota.
// Nothing fails.
func TestReserveOfADisk(t *testing.T) {
	t.Parallel()
	for _, quotaNode := range []int64{1 << 30, 1 << 20} {
		dir := spoolOnDisk(t, "64m", 58<<20) // 6 MiB are free, and the reserve is 8 MiB
		if err := os.WriteFile(filepath.Join(dir, "run of another job"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		var notified []rt.Event
		w, err := Create(dir, testRun(), rt.Host{}, Options{QuotaRun: 64 << 20, QuotaNode: quotaNode, Notify: func(e rt.Event) { notified = append(notified, e) }})
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(64, 0)
		n := sized(6000, 1500)
		for i := range n {
			if err := w.Put(m.next()); err != nil {
				t.Fatal(err)
			}
			if i%250 == 0 {
				hasNewest(t, w.Path(), int64(i)-9)
			}
		}
		used, size, err := usage(w.db)
		if err != nil || size > 1<<20 {
			t.Errorf("the file has %d bytes, and %d are used, %v", size, used, err)
		}
		if err := w.UpdateRun(testRun()); err != nil {
			t.Error(err)
		}
		if err := w.End(testRun()); err != nil {
			t.Fatal(err)
		}
		hasNewest(t, w.Path(), int64(n))
		if len(notified) > 0 {
			t.Errorf("Notify got %+v", notified)
		}
	}
}

// hasNewest checks that a file has the snapshots up to a number.
func hasNewest(t *testing.T, path string, want int64) {
	t.Helper()
	r := mustOpen(t, path)
	defer r.Close()
	got, err := r.LastSeq()
	events, err2 := r.Events()
	if err := errors.Join(err, err2); err != nil || got < want {
		t.Errorf("the newest snapshot in the file is %d, %v; at least %d are put", got, err, want)
	}
	for _, e := range events {
		if e.Status != thinnedStatus {
			t.Errorf("the ledger has %+v", e)
		}
	}
}

// If the space cannot be read, snapshots are written all the same: SQLite has its files open.
func TestReserveOfARenamedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := Create(dir, testRun(), rt.Host{}, Options{QuotaNode: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m := newMachine(4, 0)
	for i := range 100 {
		if i == 50 {
			if err := os.Rename(dir, dir+"2"); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.rows.rows) >= 10 || w.failing {
		t.Errorf("%d snapshots wait in memory", len(w.rows.rows))
	}
}

// fill puts all snapshots and ends the run.
func (j *smallJob) fill(t *testing.T, w *Writer) {
	defer w.Close()
	m := newMachine(64, 0)
	const rows = 4000
	for range rows {
		if err := w.Put(m.next()); err != nil {
			t.Error(err)
			return
		}
	}
	j.last, j.put = clone(&m.snap), rows
	if err := w.End(j.run); err != nil {
		t.Error(err)
	}
}
