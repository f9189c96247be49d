package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/resource-tracker/rt"
)

// limit makes the database refuse to grow beyond what it has, or lets it grow again.
func limit(t *testing.T, w *Writer, pages int64) {
	t.Helper()
	if err := w.db.exec(pragma("max_page_count", pages)); err != nil {
		t.Fatal(err)
	}
}

// A disk that is full for a while costs no total: what was thinned is in its
// successor, the numbers have no gap, the ledger tells of it, and once only.
func TestFullDatabaseKeepsTotals(t *testing.T) {
	var told []rt.Event
	w := mustCreate(t, Options{MaxPending: 40, Notify: func(e rt.Event) { told = append(told, e) }})
	m := newMachine(4, 1)
	put := func(n int) {
		t.Helper()
		for range n {
			if err := w.Put(m.next()); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(200)
	limit(t, w, 1) // SQLite takes the present size as the least
	put(1000)
	if n := len(w.rows.rows); n > 40 {
		t.Errorf("%d snapshots wait in memory, more than MaxPending", n)
	}
	if err := w.Flush(); !full(err) {
		t.Errorf("Flush into a full database: %v", err)
	}
	limit(t, w, 1<<30)
	put(200)
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Status != "failed" || told[1].Status != "ok" || told[0].Time.IsZero() {
		t.Errorf("Notify was told: %+v", told)
	}
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	events, err := r.Events()
	if err != nil || len(events) != 2 || events[0].Status != "failed" || !strings.Contains(events[1].Detail, "thinned") {
		t.Errorf("the ledger: %+v, %v", events, err)
	}
	list := collect(t, r, 1, 0)
	last := *list[len(list)-1]
	want := *clone(&m.snap)
	want.Seq = last.Seq // the numbers of thinned snapshots are used again
	same(t, &want, &last)
	if len(list) < 400 || len(list) > 500 {
		t.Errorf("%d of 1400 snapshots are stored", len(list))
	}
}

func full(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrFull || e.Code == sqlite3.ErrIoErr)
}

// The same on a real file system of 1 MiB, which something else fills and frees.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("only root can mount a tmpfs of 1 MiB (%v); TestFullDatabaseKeepsTotals covers the rest", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	w, err := Create(dir, testRun(), rt.Host{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(16, 0)
	ballast := filepath.Join(dir, "ballast")
	for i := range 3000 {
		if i == 500 {
			fillDisk(t, ballast)
		}
		if i == 1500 {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	n, err := r.LastSeq()
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, r, n, n)[0]
	want := *clone(&m.snap)
	want.Seq = n
	same(t, &want, got)
	events, err := r.Events()
	if err != nil || len(events) != 2 {
		t.Errorf("the ledger: %+v, %v", events, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, ballast)
	run := testRun()
	run.Start = run.Start.Add(1e9)
	if _, err := Create(dir, run, rt.Host{}, Options{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Create on a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, w.Path())
}

// fillDisk writes a file until nothing more fits.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEndOnAFullDiskSaysWhatIsLost(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(4, 0)
	for range 100 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	limit(t, w, 1)
	for range 55 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	waiting := len(w.rows.rows)
	if waiting == 0 {
		t.Fatal("nothing waits: the limit did not work")
	}
	if err := w.End(testRun()); !full(err) || !strings.Contains(err.Error(), "snapshots are lost") {
		t.Errorf("End: %v", err)
	}
	r := mustOpen(t, w.Path())
	n, err := r.Count()
	if err != nil || n != int64(155-waiting) || r.Run().State != rt.StateRunning {
		t.Errorf("%d snapshots are there, state %q, %v", n, r.Run().State, err)
	}
	if alive, err := r.Live(); alive || err != nil {
		t.Errorf("the lock did not end: %v", err)
	}
}

func TestThinKeepsFirstsAndTotals(t *testing.T) {
	var p pending
	for i := range 16 {
		s := &rt.Snapshot{Seq: int64(i + 1)}
		if i == 3 {
			s.Reason = rt.ReasonAppeared
		}
		if i%2 == 1 {
			s.Job.CPUUsage.Set(uint64(i))
		}
		p.add(s, &Options{})
	}
	p.thin()
	var left []int64
	for _, s := range p.rows {
		left = append(left, s.Seq)
	}
	want := []int64{1, 3, 4, 6, 8, 10, 12, 13, 14, 15, 16}
	if len(left) != len(want) {
		t.Fatalf("left are %v, want %v", left, want)
	}
	for i := range want {
		if left[i] != want[i] {
			t.Fatalf("left are %v, want %v", left, want)
		}
	}
	if got := p.rows[1].Job.CPUUsage; got != rt.Some[uint64](1) {
		t.Errorf("the total of the dropped second snapshot is gone: %v", got)
	}
	if p.merged != 5 || len(p.spare) != 5 {
		t.Errorf("merged %d, spare %d", p.merged, len(p.spare))
	}
	for range 10 { // nothing but extraordinary ones: the bound holds all the same
		for _, s := range p.rows {
			s.Reason = rt.ReasonStop
		}
		before := len(p.rows)
		p.thin()
		if before > 2 && len(p.rows) >= before {
			t.Fatalf("%d rows stay %d", before, len(p.rows))
		}
	}
}
