package lake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/resource-tracker/rt"
)

// A writer that is killed at any change leaves each run at most once in each snapshot. The next pass
// leaves each run once, in its last version.
func TestKilledAnywhere(t *testing.T) {
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	if more, err := strconv.ParseUint(os.Getenv("RT_SEEDS"), 10, 32); err == nil {
		seeds = more // contrib/test/lake
	}
	for seed := range seeds {
		k := &killed{w: newWorld(t), random: rand.New(rand.NewPCG(seed, 1))}
		for range 10 {
			k.deliver()
			k.w.left, k.w.isInPlace = k.random.IntN(40), k.random.IntN(2) == 0
			l, err := k.w.lake(t)
			if err == nil {
				_, err = l.Write(t.Context())
			}
			if err == nil && k.random.IntN(3) == 0 {
				_, err = l.Compact(t.Context())
			}
			if err != nil && !k.w.isDead {
				t.Fatalf("seed %d: %v", seed, err)
			}
			once(t, k.w)
			if k.random.IntN(3) == 0 {
				k.settle(t)
			}
		}
		k.settle(t)
		if done := write(t, k.w); done != (Totals{}) {
			t.Errorf("a pass without changes: %+v", done)
		}
	}
}

// killed delivers random changes to a world in which writers are killed.
type killed struct {
	w      *world
	random *rand.Rand
	next   int
}

// deliver adds runs, changes and moves others, registers some again, spoils records and removes runs.
func (k *killed) deliver() {
	start := func() time.Time {
		return day.Add(time.Duration(k.random.IntN(3)) * 24 * 31 * time.Hour).Add(time.Duration(k.next) * time.Second)
	}
	for range k.random.IntN(6) {
		k.next++
		k.w.put(k.id(), uint64(k.random.IntN(1000)*1000+k.next), start(), k.random.IntN(100))
	}
	ids := slices.Sorted(maps.Keys(k.w.runs))
	for range min(k.random.IntN(6), len(ids)) {
		r := k.w.runs[ids[k.random.IntN(len(ids))]]
		if r == nil {
			continue // removed
		}
		k.next++
		switch k.random.IntN(6) {
		case 0: // it has another date and name
			k.w.putIn(r.Cluster, r.ID, r.JobID.Or(0), start(), k.random.IntN(100))
		case 1: // another cluster
			k.w.putIn("other", r.ID, r.JobID.Or(0), r.Start, r.samples)
		case 2: // another name
			k.w.putIn(r.Cluster, r.ID, r.JobID.Or(0)+1_000_000, r.Start, r.samples)
		case 3: // it is registered again
			k.w.putIn(r.Cluster, k.id(), r.JobID.Or(0), r.Start, k.random.IntN(100))
		case 4:
			k.w.remove(r.ID)
		default:
			r = k.w.putIn(r.Cluster, r.ID, r.JobID.Or(0), r.Start, k.random.IntN(100))
			r.isBad, r.isAway = k.random.IntN(4) == 0, k.random.IntN(4) == 0
		}
	}
}

func (k *killed) id() string { return fmt.Sprintf("r%05d", k.next) }

// settle makes all records readable, writes, and checks that nothing is missing.
func (k *killed) settle(t *testing.T) {
	t.Helper()
	for _, r := range k.w.runs {
		if r.isBad {
			r.isBad = false
			r.Changes++
		}
		r.isAway = false
	}
	write(t, k.w)
	complete(t, k.w)
}

// Passes remove old snapshots.
func TestExpiry(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	write(t, w)
	for _, name := range []string{"runs", "samples"} {
		tx := w.load(t, name).NewTransaction()
		if err := tx.SetProperties(iceberg.Properties{table.MaxSnapshotAgeMsKey: "0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		w.put("r1", 7, day, 5)
		write(t, w)
	}
	if n := len(w.load(t, "runs").Metadata().Snapshots()); n != 1 {
		t.Errorf("%d snapshots, want one", n)
	}
	complete(t, w)
}

// An engine may remove the snapshot of a killed writer. Then samples of a run that is not in runs leave.
func TestExpiredHalf(t *testing.T) {
	for _, isMerged := range []bool{false, true} {
		w := newWorld(t)
		w.put("r1", 7, day, 5)
		write(t, w)
		batch := func(name string) string { return w.load(t, name).Properties()[batchKey] }
		for left := 0; batch("runs") == batch("samples"); left++ {
			w.put("r1", 7, day, 6)
			w.put("r2", uint64(8+left), day, 3)
			w.left = left
			l, err := w.lake(t)
			if err == nil {
				_, err = l.Write(t.Context())
			}
			if !w.isDead {
				t.Fatalf("no kill was between the tables: %v", err)
			}
		}
		tx := w.load(t, "samples").NewTransaction()
		if isMerged {
			if _, err := tx.RewriteManifests(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.ExpireSnapshots(table.WithOlderThan(0), table.WithRetainLast(1), table.WithPostCommit(false)); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.remove("r2")
		write(t, w)
		complete(t, w)
	}
}

// Merged files have the runs in the order in which they came, and those that came together in the order of their jobs.
func TestMergedFiles(t *testing.T) {
	w := newWorld(t)
	for _, part := range [][]uint64{{50, 10, 30}, {20, 60, 5}, {40}, {70}} {
		for _, job := range part {
			w.put(fmt.Sprint(job), job, day, 10)
		}
		write(t, w)
	}
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Compact(t.Context()); err != nil || done.Files != 2 {
		t.Errorf("%+v, %v; want one file of each table", done, err)
	}
	var jobs []int64
	for _, r := range rows(t, w, "runs") {
		jobs = append(jobs, r.job)
	}
	if !slices.Equal(jobs, []int64{10, 30, 50, 5, 20, 60, 40, 70}) {
		t.Errorf("the jobs are %v", jobs)
	}
	complete(t, w)
	w.put("20", 20, day, 11)
	write(t, w)
	complete(t, w)
}

// A run that was registered twice is there once: as it ended. If that registration leaves or cannot be read, the other
// one takes its place.
func TestRegisteredTwice(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	write(t, w)
	again := w.put("r2", 7, day, 2)
	again.State = rt.StateRunning
	write(t, w)
	if list := rows(t, w, "runs"); len(list) != 1 || list[0].id != "r1" {
		t.Errorf("a later registration that is running: %+v", list)
	}
	w.put("r2", 7, day, 9).isBad = true
	write(t, w)
	if list := rows(t, w, "runs"); len(list) != 1 || list[0].id != "r1" {
		t.Errorf("a better registration that cannot be read: %+v", list)
	}
	w.put("r2", 7, day, 9).isBad = false
	write(t, w)
	if list := rows(t, w, "runs"); len(list) != 1 || list[0].id != "r2" || list[0].samples != 9 {
		t.Errorf("a later registration that has ended: %+v", list)
	}
	w.remove("r2")
	write(t, w)
	if list := rows(t, w, "runs"); len(list) != 1 || list[0].id != "r1" {
		t.Errorf("after the better one was removed: %+v", list)
	}
	complete(t, w)
}

// A damaged record is reported once and keeps the earlier version; so does a record that retention has removed.
func TestDamagedRecord(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	w.put("r2", 8, day, 5)
	w.put("r3", 9, day, 5).isBad = true
	if done := write(t, w); done.Failed != 1 || done.Runs != 2 {
		t.Errorf("%+v", done)
	}
	w.put("r1", 7, day, 6).isBad = true
	w.put("r2", 8, day, 6).isLost = true
	if done := write(t, w); done.Failed != 1 || done.Runs != 0 {
		t.Errorf("%+v", done)
	}
	list := rows(t, w, "runs")
	if len(list) != 2 || list[0].label != "1" || list[0].samples != 5 || list[1].label != "1" || list[1].samples != 5 {
		t.Errorf("%+v", list)
	}
	if done := write(t, w); done != (Totals{}) {
		t.Errorf("damaged runs are tried again: %+v", done)
	}
	w.remove("r2")
	write(t, w)
	if list := rows(t, w, "runs"); len(list) != 1 || list[0].id != "r1" {
		t.Errorf("after r2 was removed: %+v", list)
	}
}

// A record without its object is reported and tried again; the other runs are written.
func TestAbsentRecord(t *testing.T) {
	w := newWorld(t)
	r := w.put("r1", 7, day, 5)
	r.isAway = true
	w.put("r2", 8, day, 5)
	for range 2 {
		if done := write(t, w); done.Failed != 1 {
			t.Errorf("%+v", done)
		}
	}
	r.isAway = false
	write(t, w)
	complete(t, w)
}

// Retention removes whole dates, and writes none that is too old. No snapshot has them any more.
func TestRetention(t *testing.T) {
	w := newWorld(t)
	old := w.put("r1", 7, time.Now().Add(-50*24*time.Hour), 5)
	w.put("r2", 8, time.Now(), 5)
	write(t, w)
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	l.Retain = 30 * 24 * time.Hour
	done, err := l.Write(t.Context())
	if err != nil || done.Expired != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	w.put("r3", 9, time.Now().Add(-40*24*time.Hour), 5)
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list := rows(t, w, "runs"); len(list) != 1 || list[0].id != "r2" {
		t.Errorf("%+v", list)
	}
	if n := len(rows(t, w, "samples")); n != 5 {
		t.Errorf("%d samples", n)
	}
	nowhere(t, w, old.Name)
}

// nowhere checks that no file of the warehouse has a text, and that each table has one snapshot.
func nowhere(t *testing.T, w *world, texts ...string) {
	t.Helper()
	for _, name := range []string{"runs", "samples"} {
		if n := len(w.load(t, name).Metadata().Snapshots()); n != 1 {
			t.Errorf("the table %s has %d snapshots", name, n)
		}
	}
	files := 0
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "catalog.db") {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		for _, text := range texts {
			if strings.Contains(string(content), text) {
				t.Errorf("%s has %q", path, text)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// After forget no file has the user, also what a killed writer has left; a dry run changes nothing.
func TestForget(t *testing.T) {
	w := newWorld(t)
	names := map[string]bool{}
	for i := range 6 {
		r := w.put(fmt.Sprintf("r%d", i), uint64(1000+i), day, 50)
		if i%2 == 0 {
			r.record.User, r.record.WorkDir = "mallory", "/home/mallory/x"
			names[r.Name] = true
		}
	}
	w.left = 3 // it dies after the first samples
	if l, err := w.lake(t); err == nil {
		if _, err = l.Write(t.Context()); !w.isDead {
			t.Fatal(err)
		}
	}
	write(t, w)
	complete(t, w)
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Forget(t.Context(), []string{"mallory", "nobody"}, true); err != nil || done.Removed != 3 || len(rows(t, w, "runs")) != 6 {
		t.Errorf("a dry run: %+v, %v", done, err)
	}
	before := w.load(t, "runs").CurrentSnapshot().SnapshotID
	if done, err := l.Forget(t.Context(), []string{"mallory", "nobody"}, false); err != nil || done.Removed != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	if n, m := len(rows(t, w, "runs")), len(rows(t, w, "samples")); n != 3 || m != 150 {
		t.Errorf("%d runs and %d samples are left", n, m)
	}
	if w.load(t, "runs").SnapshotByID(before) != nil {
		t.Error("the snapshot from before is there")
	}
	nowhere(t, w, slices.Concat([]string{"mallory"}, slices.Collect(maps.Keys(names)))...)
	for _, name := range []string{"runs", "samples"} { // the text of a manifest is compressed
		loaded := w.load(t, name)
		fs, err := loaded.FS(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		manifests, err := loaded.CurrentSnapshot().Manifests(fs)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			for e, err := range m.Entries(fs, false) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Status() == iceberg.EntryStatusDELETED {
					t.Errorf("%s names a removed file, and its smallest and largest values", name)
				}
			}
		}
	}
}

// A table of another version: columns that this version lacks are null in new rows, and those that the table lacks
// are added. Old and new files are read together.
func TestOtherVersions(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx := l.samples.NewTransaction()
	err = tx.UpdateSchema(true, true).AddColumn([]string{"of_the_future"}, iceberg.PrimitiveTypes.Int64, "", false, nil).
		AddColumn([]string{"steps", "element", "of_the_future"}, iceberg.PrimitiveTypes.Int64, "", false, nil).
		DeleteColumn([]string{"job_threads"}).DeleteColumn([]string{"steps", "element", "pids"}).Commit()
	if err == nil {
		err = l.samples.commit(t.Context(), tx)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w.put(fmt.Sprint("r", 2+i), uint64(8+i), day, 6)
		write(t, w)
	}
	complete(t, w)
	schema := w.load(t, "samples").Schema()
	for _, name := range []string{"of_the_future", "job_threads", "steps.element.pids", "steps.element.of_the_future"} {
		if _, isThere := schema.FindFieldByName(name); !isThere {
			t.Errorf("there is no column %s", name)
		}
	}
	l, err = w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	complete(t, w)
}

// A damaged file is reported with what to do. A rebuild writes its runs again.
func TestDamagedFile(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	write(t, w)
	files, err := filepath.Glob(filepath.Join(w.dir, "samples", "data", "*", "*", "*.parquet"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Truncate(files[0], 100); err != nil {
		t.Fatal(err)
	}
	w.put("r1", 7, day, 6)
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(t.Context()); err == nil || !strings.Contains(err.Error(), "start rt-lake rebuild") {
		t.Errorf("the error is %v", err)
	}
	if lost, err := l.Repair(t.Context()); err != nil || len(lost) != 1 {
		t.Fatalf("%v, %v; want one file", lost, err)
	}
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	isCurrent(t, w)
}

// A writer without its lock changes nothing.
func TestWriterWithoutItsLock(t *testing.T) {
	w := newWorld(t)
	w.put("r1", 7, day, 5)
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	l.Check = func(context.Context) error { return lost }
	if _, err := l.Write(t.Context()); !errors.Is(err, lost) {
		t.Errorf("the error is %v", err)
	}
	if len(rows(t, w, "runs")) != 0 || w.runs["r1"].Changes == 0 {
		t.Error("it has written")
	}
}
