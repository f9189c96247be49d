package spool

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// Jobs that would write ten times what fits into a spool of 4 MiB, four at a time,
// and nobody who delivers: each tracker goes on, what is left adds up to the totals,
// each ledger says what was thinned, and every run is there.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("only root can mount a tmpfs of 4 MiB (%v); TestQuotaKeepsTotals covers the rest", err)
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
		var wg sync.WaitGroup
		for i := range jobs {
			jobs[i].id = uint64(round*atOnce + i + 1)
			wg.Go(func() { jobs[i].track(t, dir) })
		}
		wg.Wait()
		list = append(list, jobs...)
	}
	var would int64
	for i := range list {
		list[i].check(t, dir)
		would += list[i].would
	}
	if would < 40<<20 {
		t.Errorf("the jobs would have written %d bytes, and the test wants 40 MiB", would)
	}
	total, err := dirUsage(dir)
	if err != nil || total > 3<<20 {
		t.Errorf("the spool takes %d bytes, %v", total, err)
	}
	t.Logf("of %d bytes %d are left", would, total)
}

// smallJob is one job of TestSmallDisk.
type smallJob struct {
	id    uint64
	run   rt.Run
	last  *rt.Snapshot
	put   int64
	would int64 // bytes without a quota
}

// smallRows is how many snapshots one job has, of about 450 bytes each.
const smallRows = 11_700

func (j *smallJob) track(t *testing.T, dir string) {
	j.run = testRun()
	j.run.JobID = rt.Some(j.id)
	j.run.Start = start.Add(time.Duration(j.id) * time.Second)
	var told []rt.Event
	w, err := Create(dir, j.run, rt.Host{}, Options{QuotaRun: 64 << 20, QuotaNode: 1 << 30, Notify: func(e rt.Event) { told = append(told, e) }})
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Close()
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
	if err := w.End(j.run); err != nil {
		t.Error(err)
	}
	if len(told) > 0 {
		t.Errorf("job %d: the disk was full: %+v", j.id, told)
	}
}

// cron is what rt-spool drain or gc does every few minutes, with nothing delivered.
func cron(t *testing.T, dir string) {
	unlock, err := LockDir(t.Context(), dir)
	if errors.Is(err, ErrLocked) {
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	done, _, err := Collect(t.Context(), dir, GC{Bytes: 1 << 30, Now: gcNow})
	if err := errors.Join(err, unlock()); err != nil {
		t.Error(err)
	}
	for _, d := range done {
		if d.Action != Thinned || d.Err != nil {
			t.Errorf("%s: %s, %v", d.Path, d.Action, d.Err)
		}
	}
}

func (j *smallJob) check(t *testing.T, dir string) {
	t.Helper()
	entries, err := FindJob(dir, fmt.Sprint(j.id))
	if err != nil || len(entries) != 1 {
		t.Errorf("job %d: %+v, %v", j.id, entries, err)
		return
	}
	r := mustOpen(t, entries[0].Path)
	defer r.Close()
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("job %d: %s", j.id, p.What)
	}
	n, err := r.Count()
	newest, err2 := r.LastSeq()
	if err != nil || err2 != nil || newest != j.put {
		t.Errorf("job %d: number %d is the last of %d, %v, %v", j.id, newest, j.put, err, err2)
		return
	}
	same(t, j.last, collect(t, r, newest, newest)[0])
	events, err := r.Events()
	if err != nil || len(events) != 1 || events[0].Status != thinnedStatus ||
		!strings.HasPrefix(events[0].Detail, fmt.Sprint(j.put-n, " snapshots were thinned")) {
		t.Errorf("job %d: of %d snapshots %d are left, and the ledger has %+v, %v", j.id, j.put, n, events, err)
	}
}
