package spool

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/resource-tracker/rt"
)

// Jobs that would write ten times the size of a spool of 4 MiB run, four at a time, without a
// delivery. Each tracker continues, and every run exists. What is left adds up to the totals, and
// each ledger counts what was thinned. The disk can be full for a moment if several thin at the
// same time: then snapshots stay in memory, and the ledger records it.
func TestSmallDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: eight trackers fill a disk of 4 MiB")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs root: mounts a tmpfs of 4 MiB (%v); TestQuotaKeepsTotals covers the rest", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	const atOnce, rounds = 4, 2
	var list []smallJob
	for round := range rounds {
		jobs := make([]smallJob, atOnce)
		var writers [atOnce]*Writer
		for i := range jobs {
			jobs[i].id = uint64(round*atOnce + i + 1)
			writers[i] = jobs[i].begin(t, dir)
		}
		var wg sync.WaitGroup
		for i, w := range writers {
			wg.Go(func() { jobs[i].track(t, w) })
		}
		wg.Wait()
		list = append(list, jobs...)
	}
	if err := cron(t, dir); err != nil {
		t.Errorf("when all have ended there is room: %v", err)
	}
	var would int64
	for i := range list {
		stored := list[i].check(t, dir)
		if stored == 0 {
			t.Errorf("job %d: nothing was thinned in its file", list[i].id)
		}
		would += list[i].would
	}
	if want := int64(rounds) * 20 << 20; would < want {
		t.Errorf("the jobs would have written %d bytes, and the test wants %d", would, want)
	}
	total, err := dirUsage(dir)
	if err != nil || total > 3<<20 {
		t.Errorf("the spool takes %d bytes, %v", total, err)
	}
	t.Logf("of %d bytes %d are left", would, total)
}

// smallJob is one job of TestSmallDisk.
type smallJob struct {
	id       uint64
	run      rt.Run
	last     *rt.Snapshot
	notified []rt.Event
	put      int64
	would    int64 // bytes without a quota
}

// smallRows is how many snapshots one job has, of about 450 bytes each.
const smallRows = 11_700

func (j *smallJob) begin(t *testing.T, dir string) *Writer {
	t.Helper()
	j.run = testRun()
	j.run.JobID = rt.Some(j.id)
	j.run.Start = start.Add(time.Duration(j.id) * time.Second)
	w, err := Create(dir, j.run, rt.Host{}, Options{QuotaRun: 64 << 20, QuotaNode: 1 << 30, Notify: func(e rt.Event) { j.notified = append(j.notified, e) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (j *smallJob) track(t *testing.T, w *Writer) {
	defer w.Close()
	dir := filepath.Dir(w.Path())
	m := newMachine(64, 0)
	for i := range smallRows {
		if err := w.Put(m.next()); err != nil {
			t.Error(err)
			return
		}
		if i%600 == 0 {
			cron(t, dir)
		}
	}
	j.last, j.put, j.would = clone(&m.snap), smallRows, smallRows*450
	err := w.End(j.run)
	for tries := 0; noRoom(err) && tries < 100; tries++ { // as rt-tracker does; a number, only not to hang
		cron(t, dir)
		err = w.End(j.run)
	}
	if err != nil {
		t.Error(err)
	}
}

// noRoom says that err is a disk without room.
func noRoom(err error) bool {
	var e sqlite3.Error
	return errors.Is(err, syscall.ENOSPC) || errors.As(err, &e) && (e.Code == sqlite3.ErrFull || e.SystemErrno == syscall.ENOSPC)
}

// cron is what rt-spool drain or gc does every few minutes, with nothing delivered. It can fail on
// a full disk: then it thins the next time.
func cron(t *testing.T, dir string) (refused error) {
	unlock, err := LockDir(t.Context(), dir)
	if errors.Is(err, ErrLocked) {
		return nil
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	done, _, err := Collect(t.Context(), dir, GC{Bytes: 1 << 30, Now: gcNow})
	if err := errors.Join(err, unlock()); err != nil {
		t.Error(err)
	}
	for _, d := range done {
		switch {
		case d.Action == Thinned && noRoom(d.Err):
			refused = d.Err
		case d.Action != Thinned || d.Err != nil:
			t.Errorf("%s: %s, %v", d.Path, d.Action, d.Err)
		}
	}
	return refused
}

// check returns how many stored snapshots were thinned.
func (j *smallJob) check(t *testing.T, dir string) (stored int64) {
	t.Helper()
	entries, err := FindJob(dir, fmt.Sprint(j.id))
	if err != nil || len(entries) != 1 {
		t.Errorf("job %d: %+v, %v", j.id, entries, err)
		return 0
	}
	r := mustOpen(t, entries[0].Path)
	defer r.Close()
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("job %d: %s", j.id, p.What)
	}
	n, err := r.Count()
	newest, err2 := r.LastSeq()
	events, err3 := r.Events()
	if err := errors.Join(err, err2, err3); err != nil {
		t.Errorf("job %d: %v", j.id, err)
		return 0
	}
	stored, memory := j.thinned(t, events)
	if newest != j.put-memory || n != newest-stored {
		t.Errorf("job %d: of %d snapshots %d are left, the last is number %d, and the ledger has %+v", j.id, j.put, n, newest, events)
		return stored
	}
	j.last.Seq = newest // snapshots that were thinned in memory have no number
	same(t, j.last, collect(t, r, newest, newest)[0])
	return stored
}

// thinned is how many snapshots the ledger says were thinned, of those that were stored
// and of those that waited in memory. Whatever else it says is that the disk was full,
// and then that it was so no longer.
func (j *smallJob) thinned(t *testing.T, events []rt.Event) (stored, memory int64) {
	t.Helper()
	failing, lines := false, 0
	for _, e := range events {
		var n, dropped int64
		var err error
		switch {
		case e.Kind == "spool" && e.Status == thinnedStatus:
			lines++
			_, err = fmt.Sscanf(e.Detail, "%d snapshots were thinned", &stored)
		case e.Kind == "spool" && e.Name == "quota":
			t.Logf("job %d: %s: %s", j.id, e.Status, e.Detail)
		case e.Kind == "spool" && e.Status == "failed" && !failing && strings.HasSuffix(e.Detail, "full"):
			failing = true
			t.Logf("job %d: %s", j.id, e.Detail)
		case e.Kind == "spool" && e.Status == "ok" && failing:
			failing = false
			_, err = fmt.Sscanf(e.Detail, "snapshots are written again; %d were thinned, %d events", &n, &dropped)
			memory += n
		default:
			err = errors.New("not of a disk that is full")
		}
		if err != nil || dropped != 0 {
			t.Errorf("job %d: the ledger has %+v: %v", j.id, e, err)
		}
	}
	if failing || lines > 1 || len(j.notified)%2 != 0 {
		t.Errorf("job %d: the ledger has %+v, and Notify got %+v", j.id, events, j.notified)
	}
	return stored, memory
}
