package spool

import (
	"errors"
	"fmt"
	"net/url"
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

// A process that has the database for long, a backup say, costs snapshots as a full
// disk does, and the ledger says how many.
func TestLockedDatabaseCostsNothingUnsaid(t *testing.T) {
	const puts = 140
	w := mustCreate(t, Options{MaxPending: 16})
	other, err := openConn(w.Path(), url.Values{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := errors.Join(w.db.exec(pragma("busy_timeout", 0)), other.exec("BEGIN IMMEDIATE")); err != nil {
		t.Fatal(err)
	}
	m := newMachine(2, 0)
	for range puts {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxEvents + 3 {
		w.Event(rt.Event{Kind: "sensor", Name: fmt.Sprint(i)})
	}
	if err := errors.Join(other.exec("ROLLBACK"), w.End(testRun())); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	stored, err := r.Count()
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	said, dropped, lines := int64(0), 0, 0
	for _, e := range events {
		if e.Status == mergedStatus {
			lines++
			_, text, _ := strings.Cut(e.Detail, ": ")
			if _, err := fmt.Sscanf(strings.NewReplacer(",", " ", ";", " ").Replace(text), "%d snapshots were thinned in memory those that follow them carry their totals %d", &said, &dropped); err != nil {
				t.Errorf("%q: %v", e.Detail, err)
			}
		}
	}
	if lines != 1 || stored == puts || stored+said != puts || dropped != 3 {
		t.Errorf("%d snapshots are stored and %d said to be thinned, of %d; %d events; %d lines", stored, said, puts, dropped, lines)
	}
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
}

// No total is lost on a disk that is full for a while. The next snapshot includes what was thinned,
// the numbers have no gap, and the ledger records it once.
func TestFullDatabaseKeepsTotals(t *testing.T) {
	var notified []rt.Event
	w := mustCreate(t, Options{MaxPending: 40, Notify: func(e rt.Event) { notified = append(notified, e) }})
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
	if len(notified) != 2 || notified[0].Status != "failed" || notified[1].Status != "ok" || notified[0].Time.IsZero() {
		t.Errorf("Notify got: %+v", notified)
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
		t.Skipf("needs root: mounts a tmpfs of 1 MiB (%v); TestFullDatabaseKeepsTotals covers the rest", err)
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
	for i := range 900 {
		if i == 150 {
			fillDisk(t, ballast)
		}
		if i == 450 {
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
	endsAs(t, w.Path(), &m.snap)
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

// endsAs asserts that a run that met one fault has last as its last snapshot, under
// whatever number.
func endsAs(t *testing.T, path string, last *rt.Snapshot) {
	t.Helper()
	r := mustOpen(t, path)
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	n, err := r.LastSeq()
	if err != nil {
		t.Fatal(err)
	}
	want := *clone(last)
	want.Seq = n
	same(t, &want, collect(t, r, n, n)[0])
	events, err := r.Events()
	if err != nil || len(events) != 2 {
		t.Errorf("the ledger: %+v, %v", events, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
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

// fullWriter has 100 snapshots committed and waiting ones that the database refuses.
func fullWriter(t *testing.T) (w *Writer, waiting int) {
	t.Helper()
	w = mustCreate(t, Options{})
	m := newMachine(4, 0)
	for i := range 155 {
		if i == 100 {
			limit(t, w, 1)
		}
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if waiting = len(w.rows.rows); waiting == 0 {
		t.Fatal("nothing waits: the limit did not work")
	}
	return w, waiting
}

// An End that the disk refuses loses nothing: the next one writes it all.
func TestEndOnAFullDiskKeepsWhatWaits(t *testing.T) {
	w, _ := fullWriter(t)
	run := testRun()
	for range 3 {
		if err := w.End(run); !full(err) || errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "snapshots wait") {
			t.Errorf("End: %v", err)
		}
	}
	if alive, err := Live(w.Path()); !alive || err != nil {
		t.Errorf("the lock has ended: %v", err)
	}
	limit(t, w, 1<<30)
	run.ExitCode = rt.Some[int64](7)
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, w.Path())
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	if n, err := r.Count(); err != nil || n != 155 || r.Run().State != rt.StateEnded || r.Run().ExitCode != run.ExitCode {
		t.Errorf("%d snapshots are there, state %q, exit %v, %v", n, r.Run().State, r.Run().ExitCode, err)
	}
}

// Another process that writes at that moment costs nothing either.
func TestEndOfALockedFileKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	w := mustCreate(t, Options{})
	m := newMachine(2, 0)
	for range 15 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	other, err := openConn(w.Path(), url.Values{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := w.End(testRun()); !busy(err) {
		t.Errorf("End: %v", err)
	}
	if err := errors.Join(other.exec("ROLLBACK"), other.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	if n := seen(t, w.Path()); n != 15 {
		t.Errorf("%d snapshots are there, want 15", n)
	}
	onlyFile(t, w.Path())
}

// Who gives up says what is lost, and leaves the lock's file as a sign.
func TestCloseOnAFullDiskSaysWhatIsLost(t *testing.T) {
	w, waiting := fullWriter(t)
	if err := w.End(testRun()); err == nil {
		t.Error("End on a full disk: no error")
	}
	want := fmt.Sprintf("%d snapshots are lost", waiting)
	if err := w.Close(); !full(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("Close: %v, want %q", err, want)
	}
	if _, err := os.Stat(lockPath(w.Path())); err != nil {
		t.Errorf("the lock's file: %v", err)
	}
	r := mustOpen(t, w.Path())
	n, err := r.Count()
	if err != nil || n != int64(155-waiting) || r.Run().State != rt.StateRunning {
		t.Errorf("%d snapshots are there, state %q, %v", n, r.Run().State, err)
	}
	if alive, err := r.Live(); alive || err != nil {
		t.Errorf("the lock did not end: %v", err)
	}
	if err := r.CloseLost(rt.Exit{Code: rt.Some[int64](7)}, ""); err != nil {
		t.Fatal(err)
	}
	if run := r.Run(); run.State != rt.StateEnded || run.Outcome != rt.OutcomeLost || run.ExitCode != rt.Some[int64](7) {
		t.Errorf("closed as %q, %q, exit %v", run.State, run.Outcome, run.ExitCode)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, w.Path())
}
