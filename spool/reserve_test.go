package spool

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Four trackers fill a disk of which other programs use the half, without gc. Each of them ends: they leave the space that
// thinning and the end of a run need. Without it all of them wait for space at the same time, for ever.
func TestTrackersOfAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("only root can mount a tmpfs of 4 MiB (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(disk, "other"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(disk, "spool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
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
