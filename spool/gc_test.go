package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// gcRun puts a run into dir that ended hours before the test's present, and was
// delivered that many after its end, -1: was not.
func gcRun(t *testing.T, dir string, job uint64, snapshots, ended, delivered int) string {
	t.Helper()
	run := testRun()
	run.JobID = rt.Some(job)
	run.Start = gcNow.Add(-time.Duration(ended) * time.Hour)
	run.End = run.Start
	w, err := Create(dir, run, rt.Host{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(16, 0)
	for range snapshots {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	if delivered >= 0 {
		r := mustOpen(t, w.Path())
		if err := r.Delivery().MarkDelivered(run.End.Add(time.Duration(delivered) * time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return w.Path()
}

var gcNow = start.Add(1000 * time.Hour)

// What goes by age and by size, and what never does.
func TestCollect(t *testing.T) {
	t.Parallel()
	const small, large = 5, 1500
	for _, c := range []struct {
		what string
		o    GC
		want string // of each job what was done: - nothing, r removed, t thinned
	}{
		{"by age", GC{Retain: 168 * time.Hour}, "r---"},
		{"nothing is old enough", GC{Retain: 500 * time.Hour}, "----"},
		{"by age, undelivered too", GC{Retain: 168 * time.Hour, Undelivered: true}, "rr--"},
		{"by size: delivered before their time, the others thinned", GC{Retain: 500 * time.Hour, Bytes: 400 << 10}, "r-rt"},
		{"by size, undelivered too", GC{Retain: 500 * time.Hour, Bytes: 1, Undelivered: true}, "rrrT"},
		{"a bound that holds", GC{Retain: 500 * time.Hour, Bytes: 1 << 30}, "----"},
	} {
		for _, dry := range []bool{true, false} {
			if dry && testing.Short() && c.want != "r-rt" { // make check has a dry run of each
				continue
			}
			dir := t.TempDir()
			paths := []string{gcRun(t, dir, 1, small, 300, 1), gcRun(t, dir, 2, small, 200, -1), gcRun(t, dir, 3, small, 10, 1), gcRun(t, dir, 4, large, 5, -1)}
			live, err := Create(dir, testRun(), rt.Host{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			c.o.DryRun, c.o.Now = dry, gcNow
			done, total, err := Collect(t.Context(), dir, c.o)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte("----")
			for _, d := range done {
				if d.Err != nil || d.Reason == "" || d.Size == 0 {
					t.Errorf("%s: %+v", c.what, d)
				}
				n := int(d.Run.JobID.Or(0)) - 1
				switch {
				case d.Action == Removed && got[n] == 't':
					got[n] = 'T'
				case d.Action == Removed:
					got[n] = 'r'
				case d.Action == Thinned:
					got[n] = 't'
				}
			}
			if string(got) != c.want {
				t.Errorf("%s, dry run %v: %s, want %s", c.what, dry, got, c.want)
			}
			for i, path := range paths {
				_, err := os.Stat(path)
				if gone := strings.ContainsRune("rT", rune(c.want[i])) && !dry; os.IsNotExist(err) != gone {
					t.Errorf("%s, dry run %v: job %d: %v", c.what, dry, i+1, err)
				}
			}
			if left, err := dirUsage(dir); err != nil || !dry && left != total {
				t.Errorf("%s: %d bytes are left, and it says %d, %v", c.what, left, total, err)
			}
			if err := live.Close(); err != nil {
				t.Errorf("%s: the run that is tracked: %v", c.what, err)
			}
		}
	}
}

// What a crash has left goes after an hour; stray files and locks that are held stay.
func TestCollectLeftovers(t *testing.T) {
	dir := t.TempDir()
	gcRun(t, dir, 1, 1, 1, -1)
	w, err := Create(dir, testRun(), rt.Host{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.Rename(w.Path(), w.Path()+".away"); err != nil { // its lock is held
		t.Fatal(err)
	}
	gone := []string{"a.new", "b.lock.new123", "c.lock", "d.db-shm", "d.db-wal"}
	stay := []string{"notes.txt", ".drain.lock", "young.new", "x.newer", "7.0@n1.step-lock"}
	for _, name := range append(gone, stay...) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		age := 2 * time.Hour
		if name == "young.new" {
			age = time.Minute
		}
		if err := os.Chtimes(path, gcNow.Add(-age), gcNow.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(lockPath(w.Path()), start, start); err != nil {
		t.Fatal(err)
	}
	done, _, err := Collect(t.Context(), dir, GC{Retain: 1000 * time.Hour, Now: gcNow})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range done {
		names = append(names, filepath.Base(d.Path))
	}
	if strings.Join(names, " ") != strings.Join(gone, " ") {
		t.Errorf("removed %v, want %v", names, gone)
	}
	for _, name := range append(stay, filepath.Base(lockPath(w.Path()))) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A log that has readings is listed and stays when the file of its run is gone. It goes as a run that is not delivered.
func TestLogWithoutItsRun(t *testing.T) {
	path := lostTracker(t, 200, true)
	dir := filepath.Dir(path)
	away := filepath.Join(t.TempDir(), "away.db")
	if err := os.Rename(path, away); err != nil {
		t.Fatal(err)
	}
	if entries, err := List(dir); err != nil || len(entries) != 0 {
		t.Errorf("a log that was just written: %v, %v", entries, err)
	}
	at := time.Now().Add(-24 * time.Hour)
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Chtimes(path+suffix, at, at); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 1 || entries[0].Path != path+"-wal" || !errors.Is(entries[0].Err, ErrDamaged) {
		t.Errorf("%+v, %v", entries, err)
	}
	for _, c := range []struct {
		o     GC
		stays bool
	}{
		{GC{Retain: time.Hour}, true},
		{GC{Retain: 48 * time.Hour, Undelivered: true}, true},
		{GC{Retain: time.Hour, Undelivered: true, DryRun: true}, true},
		{GC{Retain: time.Hour, Undelivered: true}, false},
	} {
		c.o.Now = time.Now()
		_, _, err := Collect(t.Context(), dir, c.o)
		_, statErr := os.Stat(path + "-wal")
		if err != nil || (statErr == nil) != c.stays {
			t.Errorf("%+v: %v, %v", c.o, err, statErr)
		}
		if !c.stays {
			break
		}
		if err := os.Rename(away, path); err != nil { // no reading is lost
			t.Fatal(err)
		}
		r, err := openReader(path)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := r.LastSeq(); err != nil || last != 200 {
			t.Errorf("%+v: %d readings, %v", c.o, last, err)
		}
		err = errors.Join(r.Close(), os.Rename(path, away))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path+"-wal", at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// A run for which the disk has no room leaves no file.
func TestCreateOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("needs root: mounts a tmpfs of 256 KiB (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	filler := filepath.Join(dir, "filler")
	refused := 0
	for kib := 256; kib >= 0; kib -= 4 {
		if err := os.WriteFile(filler, make([]byte, max(0, kib-4)<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Create(dir, testRun(), rt.Host{}, Options{})
		if err == nil {
			err = errors.Join(w.Close(), os.Remove(w.Path()))
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		refused++
		left, globErr := filepath.Glob(filepath.Join(dir, "*.*"))
		if globErr != nil || len(left) > 0 {
			t.Errorf("%v: %v is left, %v", err, left, globErr)
		}
	}
	if refused < 10 {
		t.Errorf("%d runs were refused", refused)
	}
}

// A run with a dead tracker has no end. Its age counts from the last write, no matter when it began
// and how often it is read.
func TestAnAbandonedRunIsAsOldAsItsLog(t *testing.T) {
	for _, withLog := range []bool{true, false} {
		path := lostTracker(t, 200, withLog)
		last := path
		if withLog {
			last += "-wal"
		}
		for _, c := range []struct {
			hours int
			goes  bool
		}{{1, false}, {167, false}, {169, true}} {
			at := gcNow.Add(-time.Duration(c.hours) * time.Hour)
			for _, p := range []string{path, last} {
				if err := os.Chtimes(p, at, at); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := List(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			done, _, err := Collect(t.Context(), filepath.Dir(path), GC{Retain: 168 * time.Hour, Undelivered: true, Now: gcNow})
			if err != nil || (len(done) == 1) != c.goes || c.goes && (done[0].Err != nil || !strings.Contains(done[0].Reason, "its tracker died")) {
				t.Errorf("with a log: %v, written %d hours ago: %+v, %v", withLog, c.hours, done, err)
			}
		}
	}
}

// The clock of a node is a year behind at the start of a run and is set during the run. The run's
// end is a year old, but its last write is not.
func TestARunOfAClockThatWasSet(t *testing.T) {
	for _, c := range []struct {
		what  string
		isSet bool
		hours int // since the last write
		goes  bool
	}{{"set, just written", true, 1, false}, {"set, long ago", true, 169, true}, {"not set", false, 1, true}} {
		run := testRun()
		run.Start = gcNow.Add(-8760 * time.Hour)
		run.End = run.Start.Add(time.Hour)
		w, err := Create(t.TempDir(), run, rt.Host{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.Event(rt.Event{Time: run.Start, Kind: "tracker", Name: "sensors", Status: "ok"})
		if c.isSet {
			w.Event(rt.Event{Time: run.Start, Kind: "tracker", Name: "clock", Status: "stepped"})
		}
		if err := w.End(run); err != nil {
			t.Fatal(err)
		}
		at := gcNow.Add(-time.Duration(c.hours) * time.Hour)
		if err := os.Chtimes(w.Path(), at, at); err != nil {
			t.Fatal(err)
		}
		done, _, err := Collect(t.Context(), filepath.Dir(w.Path()), GC{Retain: 168 * time.Hour, Undelivered: true, Now: gcNow})
		if err != nil || len(done) == 1 != c.goes {
			t.Errorf("%s: %+v, %v", c.what, done, err)
		}
	}
}

// A dry run leaves a file as it is: its version, too, and the mark of its delivery.
func TestADryRunChangesNothing(t *testing.T) {
	for _, marked := range []bool{false, true} {
		path := withSecondVersion(t)
		sqlOn(t, path, "UPDATE run SET state = 'delivered', delivered_us = 5000000")
		changedAt(t, path, 1)
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if marked {
			markDelivered(path, st, time.Unix(5, 0))
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		done, _, err := Collect(t.Context(), filepath.Dir(path), GC{Retain: time.Hour, Now: gcNow, DryRun: true})
		if err != nil || len(done) != 1 || done[0].Err != nil || done[0].Action != Removed || done[0].Run.Node != "n1" {
			t.Errorf("%+v, %v", done, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("marked %v: the file was changed, %v", marked, err)
		}
		if _, ok := peek(path); ok && !marked {
			t.Error("the file was marked")
		}
		onlyFile(t, path)
	}
}

// Where the bound is small runs that have ended come down to a little more than an empty
// file, each with its totals.
func TestCollectThinsToTheFloor(t *testing.T) {
	t.Parallel()
	const runs, bound = 4, 476 << 10
	dir := t.TempDir()
	for job := range uint64(runs) {
		gcRun(t, dir, job+1, 1500, 10, -1)
	}
	before := lastValues(t, filepath.Join(dir, mustList(t, dir)[0]))
	done, total, err := Collect(t.Context(), dir, GC{Retain: time.Hour, Bytes: bound, Now: gcNow})
	if err != nil || len(done) != runs || total > bound {
		t.Errorf("%d bytes are left, of %d; %+v, %v", total, bound, done, err)
	}
	for _, name := range mustList(t, dir) {
		r := mustOpen(t, filepath.Join(dir, name))
		for _, p := range r.Verify(t.Context()) {
			t.Errorf("verify: %s", p.What)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for column, v := range lastValues(t, filepath.Join(dir, name)) {
			if before[column] != v {
				t.Errorf("the last %s is %v, was %v", column, v, before[column])
			}
		}
	}
}

func mustList(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, filepath.Base(e.Path))
	}
	return names
}
