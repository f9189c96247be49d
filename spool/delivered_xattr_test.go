package spool

import (
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// mustWalk is what Walk shows of a directory with one run.
func mustWalk(t *testing.T, dir string) *Entry {
	t.Helper()
	var list []*Entry
	if err := Walk(dir, func(e *Entry) { list = append(list, e) }); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	return list[0]
}

// changedAt sets a file's time of change to so many seconds after 1 January 2020: the
// kernel's clock may give two changes the same.
func changedAt(t *testing.T, path string, seconds int) {
	t.Helper()
	at := time.Date(2020, 1, 1, 0, 0, seconds, 0, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// markedRun lets a delivered run that changed long ago, and is alone in its directory, be
// marked, which the file system must know.
func markedRun(t *testing.T, path string) {
	t.Helper()
	changedAt(t, path, 1)
	glance(path, true)
	if _, ok := peek(path); !ok {
		t.Skip("the file system of the temporary directory has no user attributes")
	}
}

// sqlOn runs statements on a file, as a person does with sqlite3.
func sqlOn(t *testing.T, path, sql string) {
	t.Helper()
	c, err := openConn(path, url.Values{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec(sql), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// deliverAgain is what a person does who wants a run delivered once more.
const deliverAgain = "UPDATE run SET state = 'ended', delivered_us = NULL"

// A run that was delivered is not opened again, until its file changes. The mark of a changed file,
// or a mark that is not ours, counts for nothing.
func TestDeliveredRunsAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	path := gcRun(t, dir, 1, 5, 300, 1)
	markedRun(t, path)
	walk := func() *Entry { return mustWalk(t, dir) }
	r := mustOpen(t, path)
	want, err := r.Delivery().DeliveredAt()
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	e := walk()
	if e.Run.Node != "" || e.Run.State != rt.StateDelivered || !e.DeliveredAt.Equal(want) || e.Size == 0 || e.Err != nil {
		t.Errorf("not opened: %+v, want delivered at %v", e, want)
	}
	entries, err := List(dir)
	if err != nil || entries[0].Run.Node == "" || entries[0].Snapshots != 5 {
		t.Errorf("List opens all: %+v, %v", entries, err)
	}
	sqlOn(t, path, deliverAgain)
	changedAt(t, path, 2)
	if e := walk(); e.Run.State != rt.StateEnded || e.Unsent != 5 {
		t.Errorf("changed since: %+v", e)
	}
	sqlOn(t, path, "UPDATE run SET state = 'delivered', delivered_us = 5000000")
	changedAt(t, path, 3)
	if e := walk(); e.Run.Node == "" {
		t.Errorf("changed since: %+v", e)
	}
	if e := walk(); e.Run.Node != "" || !e.DeliveredAt.Equal(time.Unix(5, 0)) {
		t.Errorf("looked at before: %+v", e)
	}
	if err := os.Truncate(path, 3000); err != nil {
		t.Fatal(err)
	}
	changedAt(t, path, 4)
	if e := walk(); !errors.Is(e.Err, ErrDamaged) {
		t.Errorf("cut: %+v", e)
	}
}

// A change in the same step of the kernel's clock as the last one leaves no trace: what
// has changed just now is not marked.
func TestAFreshFileIsNotMarked(t *testing.T) {
	dir := t.TempDir()
	path := gcRun(t, dir, 1, 5, 300, 1)
	markedRun(t, path)
	soon := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, soon, soon); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if e := mustWalk(t, dir); e.Run.Node == "" || !delivered(e) {
			t.Errorf("of a file that changed just now: %+v", e)
		}
	}
	path = gcRun(t, t.TempDir(), 2, 5, 300, 1)
	changedAt(t, path, 1)
	if e, ok := peek(path); ok {
		t.Errorf("marked at its delivery, before anybody could change it: %+v", e)
	}
}

// What was read before a change is void after it, also where the mark is set later still.
func TestAMarkIsOfTheFileThatWasRead(t *testing.T) {
	dir := t.TempDir()
	path := gcRun(t, dir, 1, 5, 300, 1)
	markedRun(t, path)
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	sqlOn(t, path, deliverAgain)
	changedAt(t, path, 2)
	markDelivered(path, st, gcNow)
	if e := mustWalk(t, dir); e.Run.State != rt.StateEnded || delivered(e) {
		t.Errorf("%+v", e)
	}
}

// A mark that is wrong, however it came about, costs no data, and is void afterwards.
func TestAWrongMarkRemovesNothing(t *testing.T) {
	dir := t.TempDir()
	path := gcRun(t, dir, 1, 5, 300, 1)
	markedRun(t, path)
	sqlOn(t, path, deliverAgain)
	changedAt(t, path, 1) // as before
	for _, dry := range []bool{true, false} {
		done, _, err := Collect(t.Context(), dir, GC{Retain: time.Hour, Now: gcNow, DryRun: dry})
		if err != nil || len(done) != 1 || !errors.Is(done[0].Err, ErrUndelivered) || done[0].Freed != 0 {
			t.Errorf("dry run %v: %+v, %v", dry, done, err)
		}
		if dry && mustWalk(t, dir).Run.Node != "" {
			t.Error("the dry run changed the mark")
		}
	}
	if e := mustWalk(t, dir); e.Err != nil || e.Run.State != rt.StateEnded || e.Unsent != 5 {
		t.Errorf("afterwards: %+v", e)
	}
}
