package lake

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// errKilled is the end of a writer: nothing that follows has an effect.
var errKilled = errors.New("killed")

// world is a registry and a store in memory. After left changes the writer is killed; before or after the change
// takes effect.
type world struct {
	site.ObjectStore // nil: the lake does not use Put

	left      int // negative: no kill
	isDead    bool
	objects   map[string][]byte
	runs      map[string]*run // by id
	gone      map[string]site.Changed
	beforePut func()
	afterPut  func()
	isInPlace bool          // a kill is before the change takes effect
	parsed    map[*byte]any // rows of objects, by their first byte
}

// run is a run of the registry.
type run struct {
	site.Changed
	record  rt.Run
	version int
	samples int
	isBad   bool // its record is damaged
	isLost  bool // it has no record
	isAway  bool // the object of its record is absent
}

func newWorld() *world {
	return &world{left: -1, objects: map[string][]byte{}, runs: map[string]*run{}, gone: map[string]site.Changed{}, parsed: map[*byte]any{}}
}

// change makes a change, unless the writer is killed before it.
func (w *world) change(do func()) error {
	if w.isDead {
		return errKilled
	}
	if w.left == 0 {
		w.isDead = true
		if w.isInPlace {
			return errKilled
		}
	}
	w.left--
	do()
	if w.isDead {
		return errKilled
	}
	return nil
}

func (w *world) Replace(_ context.Context, name, version string, size int64, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil || int64(len(content)) != size {
		return fmt.Errorf("%d bytes, not %d: %w", len(content), size, err)
	}
	if w.beforePut != nil {
		w.beforePut()
	}
	if versionOf(w.objects[name]) != version {
		return site.ErrReplaced
	}
	err = w.change(func() { w.objects[name] = content })
	if w.afterPut != nil {
		w.afterPut()
	}
	return err
}

// versionOf is the version of an object, empty for none.
func versionOf(content []byte) string {
	if content == nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

func (w *world) Get(_ context.Context, name string) (io.ReadCloser, error) {
	content, ok := w.objects[name]
	if !ok {
		return nil, site.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Delete has no condition: only what is too old may be deleted.
func (w *world) Delete(_ context.Context, name string) error {
	return w.change(func() { delete(w.objects, name) })
}

func (w *world) List(_ context.Context, prefix string) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(w.objects)) {
			if strings.HasPrefix(name, prefix) && !yield(site.Stored{Name: name, Bytes: int64(len(w.objects[name])), Version: versionOf(w.objects[name])}, nil) {
				return
			}
		}
	}
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

func (w *world) MarkWritten(_ context.Context, runs []site.Changed) error {
	return w.change(func() {
		for _, c := range runs {
			if r := w.runs[c.ID]; r != nil && r.Changes == c.Changes {
				r.Changes = 0
			}
		}
	})
}

func (w *world) ClaimPartition(_ context.Context, partition string, runs []site.Changed) error {
	return w.change(func() {
		for _, c := range runs {
			if r := w.runs[c.ID]; r != nil && r.Partition == c.Partition {
				r.Partition = partition
			}
		}
	})
}

func (w *world) MarkChanged(_ context.Context, partition string, runs []site.Changed) error {
	return w.change(func() {
		for _, c := range runs {
			for _, r := range w.runs {
				if r.ID != c.ID && r.Partition == partition && r.Node == c.Node && r.Start.UnixMilli() == c.Start.UnixMilli() {
					r.Changes++
				}
			}
		}
	})
}

func (w *world) GoneRuns(_ context.Context, after string, limit int) (list []site.Changed, err error) {
	for _, id := range slices.Sorted(maps.Keys(w.gone)) {
		if id > after && len(list) < limit {
			list = append(list, w.gone[id])
		}
	}
	return list, nil
}

func (w *world) ForgetRun(_ context.Context, id string) error {
	return w.change(func() { delete(w.gone, id) })
}

// report is the report of the tests.
type report struct {
	Version int                  `json:"version"`
	CPU     cpu                  `json:"cpu"`
	GPUs    []gpu                `json:"gpus,omitempty"`
	Cores   []rt.Opt[float64]    `json:"cores"`
	Sensors map[string]string    `json:"sensors"`
	Energy  *energy              `json:"energy,omitempty"`
	Nested  []nested             `json:"nested"`
	Kinds   map[string][]float64 `json:"kinds"`
	ending
}

type ending struct {
	Signal rt.Opt[int64] `json:"exit_signal"`
}

type cpu struct {
	UsedSecs rt.Opt[float64] `json:"used_secs"`
}

type gpu struct {
	UUID      string         `json:"uuid"`
	PeakBytes rt.Opt[uint64] `json:"peak_bytes"`
}

type energy struct {
	Joules float64 `json:"joules"`
}

type nested struct {
	Name string   `json:"name"`
	List []string `json:"list"`
}

func (w *world) decode(_ context.Context, id string) (*DecodedRun, error) {
	r := w.runs[id]
	isLost := r == nil || r.isLost
	switch {
	case isLost:
		return nil, site.ErrNotFound
	case r.isBad:
		return nil, site.ErrDamaged
	case r.isAway:
		return nil, ErrAbsent
	}
	return &DecodedRun{
		Run: r.record, Report: &report{Version: r.version}, Close: func() error { return nil },
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

// put adds a run to the registry, or a new version of it.
func (w *world) put(id string, job uint64, start time.Time, samples int) *run {
	r := w.runs[id]
	if r == nil {
		r = &run{}
		w.runs[id] = r
	}
	r.record.JobID, r.record.Node, r.record.Start, r.record.State = rt.Some(job), "n1", start, rt.StateEnded
	r.record.User = "alice"
	r.ID, r.Cluster, r.Start, r.Name, r.Node, r.JobID, r.State = id, "c1", start, r.record.FileStem(), "n1", r.record.JobID, r.record.State
	r.samples = samples
	r.version++
	r.Changes++
	return r
}

func (w *world) remove(id string) {
	if w.runs[id].Partition != "" {
		w.gone[id] = site.Changed{ID: id, Partition: w.runs[id].Partition}
	}
	delete(w.runs, id)
}

// lake returns a new writer.
func (w *world) lake(t *testing.T) *Lake {
	t.Helper()
	w.isDead = false
	l, err := New(Config{
		Store: w, Registry: w, Decode: w.decode, Report: reflect.TypeFor[report](), Temp: t.TempDir(), FileBytes: 15_000,
		Check: func(context.Context) error { return nil }, Problem: func(string, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.groupRows = 64
	return l
}

// row is a row of runs.
type row struct {
	ID      string `parquet:"id"`
	Name    string `parquet:"run_name"`
	JobID   int64  `parquet:"job_id"`
	Version int64  `parquet:"version"`
	Samples int64  `parquet:"samples"`
	Cluster string `parquet:"-"` // of the partition
}

// sample is a row of samples.
type sample struct {
	Name  string `parquet:"run_name"`
	Seq   int64  `parquet:"seq"`
	Usage int64  `parquet:"job_cpu_usage_us"`

	Cluster string `parquet:"-"` // of the partition
}

func (r *row) of(cluster string)    { r.Cluster = cluster }
func (s *sample) of(cluster string) { s.Cluster = cluster }

// rows reads a table as a reader does that knows nothing but the names of the files.
func rows[T any](t *testing.T, w *world, table string) (all []T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		if strings.HasPrefix(name, table+"/") {
			content := w.objects[name]
			list, isParsed := w.parsed[&content[0]].([]T)
			if !isParsed {
				var err error
				list, err = parquet.Read[T](bytes.NewReader(content), int64(len(content)))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				cluster, _, _ := strings.Cut(strings.TrimPrefix(name, table+"/cluster="), "/")
				for i := range list {
					any(&list[i]).(interface{ of(cluster string) }).of(cluster)
				}
				w.parsed[&content[0]] = list
			}
			all = append(all, list...)
		}
	}
	return all
}

// key is the key of a run.
type key struct{ cluster, name string }

// once checks that no run, and no sample, is there twice.
func once(t *testing.T, w *world) {
	t.Helper()
	seen, ids := map[key]bool{}, map[string]bool{}
	for _, r := range rows[row](t, w, tableRuns) {
		k := key{r.Cluster, r.Name}
		if seen[k] || ids[r.ID] {
			t.Fatalf("run %v, registration %s, is there twice", k, r.ID)
		}
		seen[k], ids[r.ID] = true, true
	}
	samples := map[key]map[int64]bool{}
	for _, s := range rows[sample](t, w, tableSamples) {
		k := key{s.Cluster, s.Name}
		if samples[k][s.Seq] {
			t.Fatalf("sample %d of %v is there twice", s.Seq, k)
		}
		if samples[k] == nil {
			samples[k] = map[int64]bool{}
		}
		samples[k][s.Seq] = true
	}
}

// complete checks that the lake has what the registry has, and nothing else.
func complete(t *testing.T, w *world) {
	t.Helper()
	once(t, w)
	want, got := map[key]*run{}, map[key]int{}
	for _, r := range w.runs {
		k := key{r.Cluster, r.Name}
		other := want[k]
		isBest := other == nil || copyOf(r.ID, r.State).Better(copyOf(other.ID, other.State))
		if isBest && !r.isLost {
			want[k] = r
		}
	}
	found := rows[row](t, w, tableRuns)
	for _, r := range found {
		is := want[key{r.Cluster, r.Name}]
		if is == nil {
			t.Fatalf("run %s is there and should not be", r.Name)
		}
		isSame := r.Version == int64(is.version) && r.Samples == int64(is.samples) && r.ID == is.ID
		if !isSame {
			t.Fatalf("run %s is %+v, not version %d with %d samples", r.Name, r, is.version, is.samples)
		}
	}
	if len(found) != len(want) {
		t.Fatalf("%d runs, not %d", len(found), len(want))
	}
	for _, s := range rows[sample](t, w, tableSamples) {
		is := want[key{s.Cluster, s.Name}]
		if is == nil || s.Usage != int64(is.version*1000)+s.Seq-1 {
			t.Fatalf("sample %+v of %+v", s, is)
		}
		got[key{s.Cluster, s.Name}]++
	}
	for name, r := range want {
		if got[name] != r.samples {
			t.Fatalf("run %v has %d samples, not %d", name, got[name], r.samples)
		}
	}
}

var day = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// A writer that is killed at any change leaves each run at most once at each moment. The next pass
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
		k := &killed{w: newWorld(), random: rand.New(rand.NewPCG(seed, 1))}
		k.w.afterPut = func() { once(t, k.w) }
		for range 10 {
			k.deliver()
			k.w.left, k.w.isInPlace = k.random.IntN(12), k.random.IntN(2) == 0
			_, err := k.w.lake(t).Write(t.Context())
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			once(t, k.w)
			if k.random.IntN(3) == 0 {
				k.settle(t)
			}
		}
		k.settle(t)
		names := slices.Sorted(maps.Keys(k.w.objects))
		if len(names) < 4 {
			t.Errorf("seed %d: only %d files", seed, len(names))
		}
		done, err := k.w.lake(t).Write(t.Context())
		if err != nil || done != (Totals{}) {
			t.Errorf("a pass without changes: %+v, %v", done, err)
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
		return day.Add(time.Duration(k.random.IntN(3)) * 24 * time.Hour).Add(time.Duration(k.next) * time.Second)
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
			k.w.put(r.ID, r.JobID.Or(0), start(), k.random.IntN(100))
		case 1: // another cluster
			k.w.put(r.ID, r.JobID.Or(0), r.Start, r.samples).Cluster = "other"
		case 2: // another name
			k.w.put(r.ID, r.JobID.Or(0)+1_000_000, r.Start, r.samples)
		case 3: // it is registered again
			cluster := r.Cluster
			k.w.put(k.id(), r.JobID.Or(0), r.Start, k.random.IntN(100)).Cluster = cluster
		case 4:
			k.w.remove(r.ID)
		default:
			r = k.w.put(r.ID, r.JobID.Or(0), r.Start, k.random.IntN(100))
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
	k.w.left = -1
	write(t, k.w)
	write(t, k.w) // a registration that another one had covered
	complete(t, k.w)
}

// The runs of a file are in the order of their jobs, also if they come later.
func TestSortedByJob(t *testing.T) {
	w := newWorld()
	for _, part := range [][]uint64{{50, 10, 30}, {20, 60, 5}, {40}} {
		for _, job := range part {
			w.put(fmt.Sprint(job), job, day, 10)
		}
		l := w.lake(t)
		l.FileBytes = 1 << 20
		if _, err := l.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []int64
	for _, r := range rows[row](t, w, tableRuns) {
		jobs = append(jobs, r.JobID)
	}
	if !slices.Equal(jobs, []int64{5, 10, 20, 30, 40, 50, 60}) {
		t.Errorf("the jobs are %v", jobs)
	}
	if len(w.objects) != 2 {
		t.Errorf("%d files, not one of each table", len(w.objects))
	}
	complete(t, w)
}

// A run that was registered twice is there once: as it ended.
func TestRegisteredTwice(t *testing.T) {
	w := newWorld()
	w.put("r1", 7, day, 5)
	write(t, w)
	again := w.put("r2", 7, day, 2)
	again.record.State = rt.StateRunning
	again.State = rt.StateRunning
	write(t, w)
	if list := rows[row](t, w, tableRuns); len(list) != 1 || list[0].ID != "r1" {
		t.Errorf("a later registration that is running: %+v", list)
	}
	w.put("r2", 7, day, 9)
	write(t, w)
	if list := rows[row](t, w, tableRuns); len(list) != 1 || list[0].ID != "r2" || list[0].Samples != 9 {
		t.Errorf("a later registration that has ended: %+v", list)
	}
	once(t, w)
}

func write(t *testing.T, w *world) Totals {
	t.Helper()
	done, err := w.lake(t).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// A writer is killed after it has put the samples of a run, and the run is then removed. Its
// samples go too, from a file with other runs and from a file without.
func TestRemovedAfterAKill(t *testing.T) {
	for _, hasOther := range []bool{true, false} {
		w := newWorld()
		pass := func() error {
			l := w.lake(t)
			l.FileBytes = 1 << 20
			_, err := l.Write(t.Context())
			return err
		}
		if hasOther {
			w.put("r1", 7, day, 5)
			if err := pass(); err != nil {
				t.Fatal(err)
			}
		}
		w.put("r2", 8, day, 5)
		w.left, w.isInPlace = 1, false // it dies after its second change, the PUT of the samples
		if err := pass(); !errors.Is(err, errKilled) {
			t.Fatalf("the writer ended with %v", err)
		}
		w.left = -1
		name := w.runs["r2"].Name
		count := func() (n int) {
			for _, s := range rows[sample](t, w, tableSamples) {
				if s.Name == name {
					n++
				}
			}
			return n
		}
		if count() != 5 {
			t.Fatalf("the killed writer has left %d samples, want 5", count())
		}
		w.remove("r2")
		if err := pass(); err != nil {
			t.Fatal(err)
		}
		if count() != 0 {
			t.Errorf("with another run %v: %d samples of the removed run are there", hasOther, count())
		}
	}
}

// A run with another date or cluster leaves its old partition, which keeps files without rows.
func TestMovedRun(t *testing.T) {
	w := newWorld()
	w.put("r1", 7, day, 5)
	w.put("r2", 8, day, 5)
	write(t, w)
	w.put("r1", 7, day.Add(48*time.Hour), 6)
	w.runs["r2"].Cluster = "other"
	w.runs["r2"].Changes++
	write(t, w)
	complete(t, w)
	if names := slices.Sorted(maps.Keys(w.objects)); len(names) != 6 || !strings.Contains(names[2], "cluster=other/date=2026-03-01") {
		t.Errorf("%q", names)
	}
}

// A damaged record is reported once and keeps the earlier version; so does a record that retention has removed.
func TestDamagedRecord(t *testing.T) {
	w := newWorld()
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
	list := rows[row](t, w, tableRuns)
	if len(list) != 2 || list[0].Version != 1 || list[0].Samples != 5 || list[1].Version != 1 || list[1].Samples != 5 {
		t.Errorf("%+v", list)
	}
	if done := write(t, w); done != (Totals{}) {
		t.Errorf("damaged runs are tried again: %+v", done)
	}
	w.remove("r2")
	write(t, w)
	if list := rows[row](t, w, tableRuns); len(list) != 1 || list[0].ID != "r1" {
		t.Errorf("after r2 was removed: %+v", list)
	}
}

// Retention removes whole dates, and writes none that is too old.
func TestRetention(t *testing.T) {
	w := newWorld()
	w.put("r1", 7, time.Now().Add(-50*24*time.Hour), 5)
	w.put("r2", 8, time.Now(), 5)
	write(t, w)
	l := w.lake(t)
	l.Retain = 30 * 24 * time.Hour
	done, err := l.Write(t.Context())
	if err != nil || done.Expired != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	w.put("r3", 9, time.Now().Add(-40*24*time.Hour), 5)
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list := rows[row](t, w, tableRuns); len(list) != 1 || list[0].ID != "r2" {
		t.Errorf("%+v", list)
	}
}

func TestPartitionOf(t *testing.T) {
	for _, tt := range []struct{ cluster, want string }{
		{"c1", "cluster=c1/date=2026-03-01"},
		{"", "cluster=__HIVE_DEFAULT_PARTITION__/date=2026-03-01"},
		{"a b/..", "cluster=a_b_..-9e4a049f/date=2026-03-01"},
	} {
		if got := PartitionOf(tt.cluster, day); got != tt.want {
			t.Errorf("%q: %s, not %s", tt.cluster, got, tt.want)
		}
	}
	long := PartitionOf(strings.Repeat("ü", 100), time.Time{})
	if len(long) > 200 || !strings.HasSuffix(long, "/date="+none) {
		t.Errorf("%s", long)
	}
}

// A file of a newer version is refused, not rewritten without its columns.
func TestNewerFile(t *testing.T) {
	w := newWorld()
	w.put("r1", 7, day, 5)
	write(t, w)
	var b bytes.Buffer
	type newer struct {
		ID  string `parquet:"id"`
		New int64  `parquet:"of_the_future"`
	}
	if err := parquet.Write(&b, []newer{{"r0", 1}}); err != nil {
		t.Fatal(err)
	}
	name := objectName(tableRuns, PartitionOf("c1", day), 1)
	w.objects[name] = b.Bytes()
	w.put("r1", 7, day, 6)
	if _, err := w.lake(t).Write(t.Context()); !errors.Is(err, errNewer) {
		t.Errorf("the error is %v", err)
	}
	if !bytes.Equal(w.objects[name], b.Bytes()) {
		t.Error("the file has changed")
	}
}

// What a killed writer leaves in the directory of temporary files is removed.
func TestTemporaryFiles(t *testing.T) {
	w := newWorld()
	l := w.lake(t)
	if err := os.MkdirAll(l.Temp+"/rt-lake-1/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(l.Temp); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
