package lake

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// errKilled is the end of a writer: nothing that follows has an effect.
var errKilled = errors.New("killed")

// world is a registry in memory, and a lake with its catalog in files. After left changes the writer is killed; before or
// after the change takes effect.
type world struct {
	dir  string
	db   *sql.DB
	left int // negative: no kill

	counting  sync.Mutex // of left and isDead: several goroutines remove files
	isDead    bool
	isInPlace bool // a kill is before the change takes effect
	runs      map[string]*testRun
	gone      []site.Changed

	readError func(name string) error // of a file that is read
}

// testRun is a run of the registry.
type testRun struct {
	site.Changed
	record  rt.Run
	version int
	samples int
	isBad   bool // its record is damaged
	isLost  bool // it has no record
	isAway  bool // the object of its record is absent
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), left: -1, runs: map[string]*testRun{}, readError: func(string) error { return nil }}
	var err error
	w.db, err = sql.Open("sqlite3", "file:"+filepath.Join(w.dir, "catalog.db")+"?_busy_timeout=10000&_journal_mode=WAL&_synchronous=OFF&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	return w
}

// change makes a change, unless the writer is killed before it.
func (w *world) change(do func() error) error {
	if !w.countChange() {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	w.counting.Lock()
	defer w.counting.Unlock()
	if w.isDead {
		return errKilled
	}
	return nil
}

// countChange counts a change. It returns false if the writer is killed before the change takes effect.
func (w *world) countChange() bool {
	w.counting.Lock()
	defer w.counting.Unlock()
	if w.isDead {
		return false
	}
	w.isDead = w.left == 0
	if w.isDead && w.isInPlace {
		return false
	}
	w.left--
	return true
}

// killedFS is the local file system of a writer.
type killedFS struct {
	icebergio.LocalFS
	w *world
}

func (fs killedFS) Create(name string) (f icebergio.FileWriter, err error) {
	err = fs.w.change(func() error {
		f, err = fs.LocalFS.Create(name)
		return err
	})
	return f, err
}

func (fs killedFS) Open(name string) (icebergio.File, error) {
	if err := fs.w.readError(name); err != nil {
		return nil, err
	}
	return fs.LocalFS.Open(name)
}

func (fs killedFS) ReadFile(name string) ([]byte, error) {
	if err := fs.w.readError(name); err != nil {
		return nil, err
	}
	return fs.LocalFS.ReadFile(name)
}

func (fs killedFS) WriteFile(name string, content []byte) error {
	return fs.w.change(func() error { return fs.LocalFS.WriteFile(name, content) })
}

func (fs killedFS) Remove(name string) error {
	return fs.w.change(func() error { return fs.LocalFS.Remove(name) })
}

func (w *world) ChangedRuns(_ context.Context, after site.Changed, limit int) (list []site.Changed, err error) {
	compare := func(a, b site.Changed) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	}
	for _, r := range w.runs {
		if r.Changes > 0 && compare(r.Changed, after) > 0 {
			list = append(list, r.Changed)
		}
	}
	slices.SortFunc(list, compare)
	return list[:min(limit, len(list))], nil
}

func (w *world) Registrations(_ context.Context, c site.Changed) (list []site.Changed, err error) {
	for _, r := range w.runs {
		if r.Name == c.Name && r.Cluster == c.Cluster {
			list = append(list, r.Changed)
		}
	}
	return list, nil
}

func (w *world) MarkWritten(_ context.Context, runs []site.Changed) error {
	return w.change(func() error {
		for _, c := range runs {
			if r := w.runs[c.ID]; r != nil && r.Changes == c.Changes {
				r.Changes = 0
			}
		}
		return nil
	})
}

func (w *world) GoneRuns(_ context.Context, after site.Changed, limit int) ([]site.Changed, error) {
	if after.ID != "" {
		return nil, nil
	}
	return w.gone, nil
}

func (w *world) ForgetGone(_ context.Context, runs []site.Changed) error {
	return w.change(func() error {
		w.gone = slices.DeleteFunc(w.gone, func(c site.Changed) bool {
			return slices.ContainsFunc(runs, func(done site.Changed) bool {
				return done.ID == c.ID && done.Name == c.Name && done.Cluster == c.Cluster
			})
		})
		return nil
	})
}

func (w *world) decode(_ context.Context, id string) (*DecodedRun, error) {
	r := w.runs[id]
	isLost := r == nil || r.isLost
	switch {
	case isLost:
		return nil, site.ErrNotFound
	case r.isBad:
		return nil, fmt.Errorf("%w: the record", site.ErrDamaged)
	case r.isAway:
		return nil, ErrAbsent
	}
	s := &report.Summary{Label: fmt.Sprint(r.version), Run: r.record}
	s.CPU.AllocatedSecs, s.CPU.UsedSecs, s.CPU.CoresOf = rt.Some(100.0), rt.Some(25.0), "allocation"
	return &DecodedRun{
		Run: r.record, Report: s, Close: func() error { return nil },
		Snapshots: func(yield func(*rt.Snapshot, error) bool) {
			var s rt.Snapshot
			for i := range r.samples {
				s.Seq, s.Wall, s.Boot = int64(i+1), r.Start.Add(time.Duration(i)*time.Second).UnixNano(), int64(i)*1e9
				s.Job.CPUUsage.Set(uint64(r.version*1000 + i))
				if !yield(&s, nil) {
					return
				}
			}
		},
	}, nil
}

var day = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// put adds a run to the registry, or a new version of it.
func (w *world) put(id string, job uint64, start time.Time, samples int) *testRun {
	return w.putIn("c1", id, job, start, samples)
}

func (w *world) putIn(cluster, id string, job uint64, start time.Time, samples int) *testRun {
	r := w.runs[id]
	old := ""
	if r == nil {
		r = &testRun{}
		w.runs[id] = r
	} else {
		old = r.Cluster + r.Name
	}
	before := r.Changed
	r.record.Cluster, r.record.JobID, r.record.Node, r.record.Start, r.record.State = cluster, rt.Some(job), "n1", start, rt.StateEnded
	r.record.User = "alice"
	r.ID, r.Cluster, r.Start, r.Name, r.Node, r.JobID, r.State = id, cluster, start, r.record.FileStem(), "n1", r.record.JobID, r.record.State
	if old != "" && old != r.Cluster+r.Name {
		w.gone = append(w.gone, before)
	}
	r.samples = samples
	r.version++
	r.Changes++
	return r
}

func (w *world) remove(id string) {
	w.gone = append(w.gone, w.runs[id].Changed)
	delete(w.runs, id)
}

// lake returns a new writer.
func (w *world) lake(t testing.TB) (*Lake, error) {
	t.Helper()
	w.isDead = false
	c := w.catalog(t)
	return Open(t.Context(), Config{
		Catalog: c, Warehouse: "file://" + w.dir, Registry: w, Decode: w.decode, BatchRuns: 5,
		Check: func(context.Context) error { return nil }, Problem: func(string, error) {},
	})
}

// catalog opens the catalog with the files of a writer that can be killed.
func (w *world) catalog(t testing.TB) catalog.Catalog {
	t.Helper()
	c, err := SQLCatalog(w.db, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	icebergio.Unregister("file")
	icebergio.Register("file", func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) { return killedFS{w: w}, nil })
	return c
}

// write is a pass that is not killed.
func write(t testing.TB, w *world) Totals {
	t.Helper()
	w.left = -1
	l, err := w.lake(t)
	if err != nil {
		t.Fatal(err)
	}
	done, err := l.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// row is a row of a table.
type row struct {
	id, cluster, name, label    string
	job, samples, seq, cpuUsage int64
}

// load loads a table as a reader does.
func (w *world) load(t testing.TB, name string) *table.Table {
	t.Helper()
	c, err := SQLCatalog(w.db, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := c.LoadTable(t.Context(), table.Identifier{namespace, name})
	if errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// rows reads a table.
func rows(t testing.TB, w *world, name string) []row {
	t.Helper()
	loaded := w.load(t, name)
	if loaded == nil || loaded.CurrentSnapshot() == nil {
		return nil
	}
	return rowsOf(t, loaded)
}

func rowsOf(t testing.TB, loaded *table.Table, options ...table.ScanOption) (all []row) {
	t.Helper()
	var fields []string
	for _, name := range []string{"id", "cluster", "run_name", "job", "job_id", "samples", "seq", "job_cpu_usage_us"} {
		if _, isThere := loaded.Schema().FindFieldByName(name); isThere {
			fields = append(fields, name)
		}
	}
	_, batches, err := loaded.Scan(append(options, table.WithSelectedFields(fields...))...).ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(b.NumRows()) {
			all = append(all, row{
				textAt(b, "id", i), textAt(b, "cluster", i), textAt(b, "run_name", i), textAt(b, "job", i),
				intAt(b, "job_id", i), intAt(b, "samples", i), intAt(b, "seq", i), intAt(b, "job_cpu_usage_us", i),
			})
		}
		b.Release()
	}
	return all
}

func textAt(b arrow.RecordBatch, name string, i int) string {
	for _, n := range b.Schema().FieldIndices(name) {
		return b.Column(n).(*array.String).Value(i)
	}
	return ""
}

func intAt(b arrow.RecordBatch, name string, i int) int64 {
	for _, n := range b.Schema().FieldIndices(name) {
		return b.Column(n).(*array.Int64).Value(i)
	}
	return -1
}

// once checks that no run, and no sample, is in a snapshot twice.
func once(t testing.TB, w *world) {
	t.Helper()
	for _, name := range []string{"runs", "samples"} {
		loaded := w.load(t, name)
		if loaded == nil {
			continue
		}
		for _, s := range loaded.Metadata().Snapshots() {
			seen := map[row]bool{}
			for _, r := range rowsOf(t, loaded, table.WithSnapshotID(s.SnapshotID)) {
				k := row{cluster: r.cluster, name: r.name, seq: r.seq}
				if seen[k] {
					t.Fatalf("%s: %+v is there twice", name, k)
				}
				seen[k] = true
			}
		}
	}
}

// complete checks that the lake has what the registry has, and nothing else, and each snapshot a run once.
func complete(t testing.TB, w *world) {
	t.Helper()
	once(t, w)
	isCurrent(t, w)
}

// isCurrent checks that the current snapshots have what the registry has, and nothing else.
func isCurrent(t testing.TB, w *world) {
	t.Helper()
	want, got := map[key]*testRun{}, map[key]int{}
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		r := w.runs[id]
		k := key{r.Cluster, r.Name}
		other := want[k]
		isBest := other == nil || copyOf(&r.Changed).Better(copyOf(&other.Changed))
		if isBest && !r.isLost {
			want[k] = r
		}
	}
	found := rows(t, w, "runs")
	for _, r := range found {
		is := want[key{r.cluster, r.name}]
		if is == nil {
			t.Fatalf("run %s is there and should not be", r.name)
		}
		isSame := r.label == fmt.Sprint(is.version) && r.samples == int64(is.samples) && r.id == is.ID
		if !isSame {
			t.Fatalf("run %s is %+v, not version %d of %s with %d samples", r.name, r, is.version, is.ID, is.samples)
		}
	}
	if len(found) != len(want) {
		t.Fatalf("%d runs, not %d", len(found), len(want))
	}
	for _, s := range rows(t, w, "samples") {
		is := want[key{s.cluster, s.name}]
		if is == nil || s.cpuUsage != int64(is.version*1000)+s.seq-1 {
			t.Fatalf("sample %+v of %+v", s, is)
		}
		got[key{s.cluster, s.name}]++
	}
	for name, r := range want {
		if got[name] != r.samples {
			t.Fatalf("run %v has %d samples, not %d", name, got[name], r.samples)
		}
	}
}
