package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/site"
)

// A run with an unreadable record stays in its partition, and under its name, until the record can
// be read.
func TestMovedRunThatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(*run){
		"damaged": func(r *run) { r.isBad = true }, "expired": func(r *run) { r.isLost = true }, "absent": func(r *run) { r.isAway = true },
	} {
		for what, move := range map[string]func(w *world) *run{
			"date":    func(w *world) *run { return w.put("r1", 7, day.AddDate(0, 0, 1), 5) },
			"cluster": func(w *world) *run { r := w.put("r1", 7, day, 5); r.Cluster = "other"; return r },
			"name":    func(w *world) *run { return w.put("r1", 8, day, 5) },
		} {
			w := newWorld()
			w.put("r1", 7, day, 5)
			write(t, w)
			r := move(w)
			spoil(r)
			write(t, w)
			if list := rows[row](t, w, tableRuns); len(list) != 1 || list[0].Version != 1 || list[0].Samples != 5 {
				t.Errorf("%s, another %s: %+v", name, what, list)
			}
			if isTried := r.Changes == 0; isTried == r.isAway {
				t.Errorf("%s, another %s: %d changes are left", name, what, r.Changes)
			}
			r.isBad, r.isLost, r.isAway = false, false, false
			r.Changes++
			write(t, w)
			complete(t, w)
		}
	}
}

// A record without its object is reported and tried again; the other runs are written.
func TestAbsentRecord(t *testing.T) {
	w := newWorld()
	r := w.put("r1", 7, day, 5)
	r.isAway = true
	w.put("r2", 8, day, 5)
	for pass, want := range []Totals{{Runs: 1, Failed: 1}, {Failed: 1}} {
		if done := write(t, w); done.Runs != want.Runs || done.Failed != want.Failed || r.Changes == 0 {
			t.Errorf("pass %d: %+v, changes %d", pass, done, r.Changes)
		}
	}
	r.isAway = false
	write(t, w)
	complete(t, w)
}

// A new version whose record cannot be read changes no file, in this pass and in the next ones.
func TestUnreadableVersionChangesNoFile(t *testing.T) {
	for name, spoil := range map[string]func(*run){
		"damaged": func(r *run) { r.isBad = true }, "expired": func(r *run) { r.isLost = true }, "absent": func(r *run) { r.isAway = true },
	} {
		w := newWorld()
		w.put("r1", 7, day, 5)
		w.put("r2", 8, day, 6)
		write(t, w)
		r := w.put("r1", 7, day, 9)
		spoil(r)
		for pass := range 2 {
			if done := write(t, w); done.Files != 0 || done.Runs != 0 {
				t.Errorf("%s, pass %d: %+v", name, pass, done)
			}
		}
		r.isBad, r.isLost, r.isAway = false, false, false
		r.Changes++
		if done := write(t, w); done.Files != 2 || done.Runs != 1 {
			t.Errorf("%s, when it can be read: %+v", name, done)
		}
		complete(t, w)
	}
}

// A run with a damaged row in the registry is reported, keeps its earlier version and does not stop the others.
func TestDamagedRow(t *testing.T) {
	w := newWorld()
	r := w.put("r1", 7, day, 5)
	write(t, w)
	w.put("r1", 7, day, 5)
	r.Name, r.JobID, r.State, r.Damage = "", rt.Opt[uint64]{}, "", site.ErrDamaged
	w.put("r2", 8, day, 5)
	if done := write(t, w); done.Runs != 1 || done.Failed != 1 {
		t.Errorf("%+v", done)
	}
	if list := rows[row](t, w, tableRuns); len(list) != 2 || list[0].ID != "r1" || list[0].Version != 1 {
		t.Errorf("%+v", list)
	}
}

// Of two registrations of a run, the lesser is written if the better one cannot be read, and replaced when it can.
func TestTwiceAndUnreadable(t *testing.T) {
	for name, spoil := range map[string]func(*run){
		"damaged": func(r *run) { r.isBad = true }, "expired": func(r *run) { r.isLost = true }, "absent": func(r *run) { r.isAway = true },
	} {
		w := newWorld()
		w.put("r1", 7, day, 5)
		better := w.put("r2", 7, day, 6)
		spoil(better)
		write(t, w)
		if list := rows[row](t, w, tableRuns); len(list) != 1 || list[0].ID != "r1" || w.runs["r1"].Changes != 0 {
			t.Errorf("%s: %+v, changes %d", name, list, w.runs["r1"].Changes)
		}
		better.isBad, better.isLost, better.isAway = false, false, false
		better.Changes++
		write(t, w)
		complete(t, w)
	}
}

// When the better of two registrations of a run leaves, the other one is written.
func TestTwiceAndOneLeaves(t *testing.T) {
	for _, leave := range []func(w *world){
		func(w *world) { w.remove("r2") },
		func(w *world) { w.put("r2", 7, day.AddDate(0, 0, 1), 3) },
		func(w *world) { w.put("r2", 8, day, 3) },
	} {
		for _, left := range kills(t) {
			w := newWorld()
			w.put("r1", 7, day, 5)
			w.put("r2", 7, day, 6)
			write(t, w)
			leave(w)
			w.left, w.isInPlace = left, true
			_, err := w.lake(t).Write(t.Context())
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			w.left = -1
			write(t, w)
			write(t, w)
			complete(t, w)
		}
	}
}

// kills returns the numbers of changes after which the writer is killed; -1 is never. With -short it returns some of them.
func kills(t *testing.T) []int {
	t.Helper()
	all := []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	if !testing.Short() {
		return all
	}
	var some []int
	for i := random.Below(t, 4); i < len(all); i += 4 {
		some = append(some, all[i])
	}
	return some
}

// A run that moves again after a writer was killed while it moved is in the last partition only.
func TestMovedTwice(t *testing.T) {
	for _, left := range kills(t) {
		for _, isInPlace := range []bool{true, false} {
			w := newWorld()
			w.put("r1", 7, day, 5)
			write(t, w)
			w.put("r1", 7, day.AddDate(0, 0, 1), 5)
			w.left, w.isInPlace = left, isInPlace
			_, err := w.lake(t).Write(t.Context())
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			w.left = -1
			w.put("r1", 7, day.AddDate(0, 0, 2), 5)
			write(t, w)
			complete(t, w)
		}
	}
}

// The same for a run that is removed after the kill.
func TestMovedAndRemoved(t *testing.T) {
	for _, left := range kills(t) {
		w := newWorld()
		w.put("r1", 7, day, 5)
		write(t, w)
		w.put("r1", 7, day.AddDate(0, 0, 1), 5)
		w.left, w.isInPlace = left, left%2 == 0
		_, err := w.lake(t).Write(t.Context())
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		w.left = -1
		w.remove("r1")
		write(t, w)
		if list := rows[row](t, w, tableRuns); len(list) != 0 {
			t.Errorf("killed after %d changes: %+v", left, list)
		}
	}
}

// Forget removes also the samples that a killed writer has left; a dry run changes nothing.
func TestForgetAfterAKill(t *testing.T) {
	for _, hasOther := range []bool{true, false} {
		w := newWorld()
		big := func() *Lake {
			l := w.lake(t)
			l.FileBytes = 1 << 20
			return l
		}
		if hasOther {
			w.put("r1", 7, day, 5)
			write(t, w)
		}
		w.put("r2", 8, day, 5)
		w.left, w.isInPlace = 1, false // it dies after its second change, the PUT of the samples
		if _, err := big().Write(t.Context()); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		w.left = -1
		for _, isDry := range []bool{true, false} {
			before := len(w.objects)
			if _, err := big().Forget(t.Context(), []string{"bob"}, isDry); err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, s := range rows[sample](t, w, tableSamples) {
				if strings.HasPrefix(s.Name, "job-8-") {
					left++
				}
			}
			isKept := left == 5 && len(w.objects) == before
			if isKept != isDry {
				t.Errorf("with another run %v, dry run %v: %d samples of no run, %d files, %d before", hasOther, isDry, left, len(w.objects), before)
			}
		}
	}
}

// A writer that has lost its lock stores a file after another writer's file. Nothing is
// overwritten, and the next pass writes what is left.
func TestWriterWithoutItsLock(t *testing.T) {
	for put := range 4 {
		w := newWorld()
		w.put("r1", 7, day, 5)
		write(t, w)
		w.put("r2", 8, day, 5)
		w.put("r3", 9, day.AddDate(0, 0, 1), 5)
		n := 0
		w.beforePut = func() {
			n++
			if n != put+1 {
				return
			}
			w.beforePut = nil
			w.put("r4", 6, day, 5)
			w.put("r5", 5, day.AddDate(0, 0, 1), 5)
			write(t, w)
			once(t, w)
		}
		_, err := w.lake(t).Write(t.Context())
		if !errors.Is(err, site.ErrReplaced) {
			t.Errorf("PUT %d: %v", put, err)
		}
		once(t, w)
		write(t, w)
		complete(t, w)
	}
}

// A damaged file is reported, and does not stop the other partitions. When it is deleted, a rebuild writes its runs.
func TestDamagedFile(t *testing.T) {
	for _, table := range []string{tableRuns, tableSamples} {
		w := newWorld()
		next := day.AddDate(0, 0, 1)
		w.put("r1", 7, day, 5)
		w.put("r2", 8, next, 5)
		w.put("r3", 9, next, 5)
		write(t, w)
		bad := objectName(table, PartitionOf("c1", day), 1)
		w.objects[bad] = w.objects[bad][:100]
		w.put("r4", 10, day, 5)
		w.put("r5", 11, next, 5)
		w.remove("r3")
		for pass, wantRuns := range []int{2, 0} { // r2 may be another registration of r3
			done, err := w.lake(t).Write(t.Context())
			isReported := errors.Is(err, site.ErrDamaged) && strings.Contains(err.Error(), "part-00001.parquet") && strings.Contains(err.Error(), "--rebuild")
			if !isReported || done.Runs != wantRuns || w.runs["r4"].Changes == 0 || w.runs["r5"].Changes != 0 || len(w.gone) != 0 {
				t.Errorf("%s, pass %d: %+v, %v", table, pass, done, err)
			}
		}
		w.remove("r1")
		if _, err := w.lake(t).Write(t.Context()); !errors.Is(err, site.ErrDamaged) || len(w.gone) != 1 {
			t.Errorf("%s: a run leaves a damaged file: %v, %d runs are gone", table, err, len(w.gone))
		}
		done, err := w.lake(t).Forget(t.Context(), []string{"alice"}, false)
		if !errors.Is(err, site.ErrDamaged) || done.Removed != 2 {
			t.Errorf("%s: forget: %+v, %v", table, done, err)
		}
		for _, name := range []string{tableRuns, tableSamples} {
			delete(w.objects, objectName(name, PartitionOf("c1", day), 1))
		}
		for _, r := range w.runs {
			r.Changes++
		}
		write(t, w)
		complete(t, w)
	}
}

// forbidden is a store with a partition whose directory may not be read.
type forbidden struct {
	*world
	partition string
}

func (f forbidden) List(ctx context.Context, prefix string) iter.Seq2[site.Stored, error] {
	if strings.Contains(prefix, f.partition) {
		return func(yield func(site.Stored, error) bool) {
			yield(site.Stored{}, fmt.Errorf("open %s: %w", prefix, fs.ErrPermission))
		}
	}
	return f.world.List(ctx, prefix)
}

// A partition that may not be read does not stop the others.
func TestForbiddenPartition(t *testing.T) {
	w := newWorld()
	w.put("r1", 7, day, 5)
	w.put("r2", 8, day.AddDate(0, 0, 1), 5)
	l := w.lake(t)
	l.Store = forbidden{w, PartitionOf("c1", day)}
	done, err := l.Write(t.Context())
	isReported := errors.Is(err, site.ErrDamaged) && strings.Contains(err.Error(), "make it accessible to the user of rt-site")
	if !isReported || done.Runs != 1 || w.runs["r1"].Changes == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	write(t, w)
	complete(t, w)
}
