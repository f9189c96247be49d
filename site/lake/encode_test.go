package lake

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/resource-tracker/rt"
)

// randomSnapshot is a snapshot in which each figure may be absent, with lists of some elements.
func randomSnapshot(r *rand.Rand, seq int64) *rt.Snapshot {
	s := &rt.Snapshot{Seq: seq, Wall: seq*1e10 + r.Int64N(1e6), Boot: seq * 1e10, Reason: rt.Reason(r.IntN(4))}
	s.Job.Phase = rt.JobPhase(r.IntN(4))
	maybe := func(v *rt.Opt[uint64]) {
		switch r.IntN(4) {
		case 0:
		case 1:
			v.Set(rt.Unlimited)
		default:
			v.Set(r.Uint64() >> r.IntN(64))
		}
	}
	if r.IntN(3) > 0 {
		s.Node.CPU.Set(rt.CPUTimes{User: r.Uint64N(1e6), Idle: r.Uint64()})
	}
	for i := range rt.NodeFigures {
		maybe(rt.NodeFigures[i].Field(&s.Node))
	}
	for i := range rt.JobFigures {
		maybe(rt.JobFigures[i].Field(&s.Job))
	}
	for i := range rt.TreeFigures {
		maybe(rt.TreeFigures[i].Field(&s.Tree))
	}
	if r.IntN(2) == 0 {
		rt.NodeGPUUsage.Field(&s.Node).Set(r.NormFloat64())
		rt.GPUUseUsage.Field(&s.GPU).Set([]float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN()}[r.IntN(4)])
	}
	for n := range r.IntN(3) {
		disk := rt.DiskReading{Name: fmt.Sprintf("disk%d", n), Leaf: r.IntN(2) == 0}
		maybe(&disk.ReadBytes)
		s.Disks = append(s.Disks, disk)
		s.GPUs = append(s.GPUs, rt.GPUReading{UUID: fmt.Sprint(r.IntN(5)), Detail: map[string]string{"a": "b"}})
		s.Procs = append(s.Procs, rt.ProcessReading{PID: r.Uint64N(99), Comm: "x\xff"})
	}
	return s
}

// oldValues are the values of a snapshot as the lake wrote them value by value with parquet-go.
func oldValues(e *sampleEncoder, run *rt.Run, s *rt.Snapshot) [][]parquet.Value {
	row := make([][]parquet.Value, len(e.schema.Columns()))
	put := func(name string, v parquet.Value, ok bool) {
		at := indexOf(e.schema, name)
		row[at] = []parquet.Value{optional(v, ok, at)}
	}
	for _, c := range e.constant {
		v, ok := c.value(run)
		put(c.name, v, ok)
	}
	put("seq", parquet.Int64Value(s.Seq), true)
	put("time", parquet.Int64Value(s.Wall/1000), true)
	put("boot_us", parquet.Int64Value(s.Boot/1000), true)
	put("reason", text(s.Reason.String()), true)
	put("job_phase", text(s.Job.Phase.String()), true)
	t, ok := s.Node.CPU.Get()
	for name, v := range map[string]uint64{"user": t.User, "nice": t.Nice, "system": t.System, "idle": t.Idle, "iowait": t.IOWait, "irq": t.IRQ, "softirq": t.SoftIRQ, "steal": t.Steal} {
		put("node_cpu_"+name+"_ticks", integer(v), ok)
	}
	putFigures(put, "node", &s.Node, rt.NodeFigures[:])
	putFigures(put, "job", &s.Job, rt.JobFigures[:])
	putFigures(put, "tree", &s.Tree, rt.TreeFigures[:])
	putFigures(put, "job_gpu", &s.GPU, rt.GPUUseFigures[:])
	put("node_gpu_usage", parquet.DoubleValue(s.Node.GPUUsage.Or(0)), s.Node.GPUUsage.Valid())
	put("job_gpu_usage", parquet.DoubleValue(s.GPU.Usage.Or(0)), s.GPU.Usage.Valid())
	putList(e, row, "nets", s.Nets)
	putList(e, row, "disks", s.Disks)
	putList(e, row, "mounts", s.Mounts)
	putList(e, row, "gpus", s.GPUs)
	putList(e, row, "fabrics", s.Fabrics)
	putList(e, row, "remote_fs", s.RemoteFS)
	putList(e, row, "steps", s.Steps)
	putList(e, row, "processes", s.Procs)
	putList(e, row, "gpu_processes", s.GPUProcesses)
	putList(e, row, "energy", s.Energy)
	putList(e, row, "perf", s.Perf)
	return row
}

func putList[T any, P fielder[T]](e *sampleEncoder, row [][]parquet.Value, name string, elements []T) {
	for _, f := range P(new(T)).Fields() {
		at := indexOf(e.schema, name, "list", "element", fieldName(f))
		if len(elements) == 0 {
			row[at] = []parquet.Value{parquet.NullValue().Level(0, noList, at)}
		}
	}
	for n := range elements {
		for _, f := range P(&elements[n]).Fields() {
			at := indexOf(e.schema, name, "list", "element", fieldName(f))
			v, ok := reader(f.At)()
			level := hasField
			if !ok {
				v, level = parquet.NullValue(), noField
			}
			row[at] = append(row[at], v.Level(min(n, 1), level, at))
		}
	}
}

func putFigures[T any](put func(string, parquet.Value, bool), noun string, of *T, figures []rt.Figure[T, uint64]) {
	for _, f := range figures {
		f.Unit = unit(f.Unit)
		v, ok := f.Field(of).Get()
		put(f.Column(noun), integer(v), ok)
	}
}

// The files of the lake have the same rows, row groups and statistics as files of parquet-go, which
// gets each value by itself.
func TestSameAsParquetGo(t *testing.T) {
	const samples, group = 3 * sampleRows, 2 * sampleRows
	r := rand.New(rand.NewPCG(1, 2))
	e := newSampleEncoder()
	var ours, theirs bytes.Buffer
	w, err := newTable(&ours, e.schema, e.about, group)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w.columns {
		c.pageValues = 100
	}
	g := parquet.NewGenericWriter[any](&theirs, e.schema, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("rt", rt.Version, ""),
		parquet.KeyValueMetadata(DescriptionKey, encodeDescriptions(e.about)))
	for i := range samples {
		run := &rt.Run{}
		run.Node, run.Start = fmt.Sprintf("n%d", i/70), time.Unix(1, 0)
		if i%70 == 0 {
			e.begin(run)
		}
		s := randomSnapshot(r, int64(i+1))
		for c, values := range oldValues(e, run, s) {
			if _, err := g.ColumnWriters()[c].WriteRowValues(values); err != nil {
				t.Fatal(err)
			}
		}
		if (i+1)%group == 0 {
			if err := g.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if !e.add(s) {
			continue
		}
		n, err := e.flush(w.columns)
		if err == nil {
			err = w.added(n)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, ours.Bytes(), theirs.Bytes())
}

// sameFiles compares the content of two files.
func sameFiles(t *testing.T, ours, theirs []byte) {
	t.Helper()
	a, b := open(t, ours), open(t, theirs)
	if got, want := fmt.Sprint(a.Schema()), fmt.Sprint(b.Schema()); got != want {
		t.Errorf("the schema is %s, want %s", got, want)
	}
	if a.NumRows() != b.NumRows() || len(a.RowGroups()) != len(b.RowGroups()) {
		t.Fatalf("%d rows in %d row groups, want %d in %d", a.NumRows(), len(a.RowGroups()), b.NumRows(), len(b.RowGroups()))
	}
	if got, want := a.Metadata().KeyValueMetadata, b.Metadata().KeyValueMetadata; !slices.Equal(got, want) {
		t.Errorf("the metadata are %v, want %v", got, want)
	}
	for g := range a.RowGroups() {
		for c := range a.Schema().Columns() {
			name := a.Schema().Columns()[c]
			got, want := valuesOf(t, a.RowGroups()[g].ColumnChunks()[c]), valuesOf(t, b.RowGroups()[g].ColumnChunks()[c])
			if !slices.EqualFunc(got, want, sameValue) {
				t.Errorf("row group %d, column %v: %v, want %v", g, name, got, want)
			}
			x, y := a.Metadata().RowGroups[g].Columns[c].MetaData, b.Metadata().RowGroups[g].Columns[c].MetaData
			if !slices.Equal(x.PathInSchema, y.PathInSchema) || x.Codec != y.Codec {
				t.Errorf("row group %d, column %v: the path is %v, want %v; the codec is %v, want %v", g, name, x.PathInSchema, y.PathInSchema, x.Codec, y.Codec)
			}
			isNaN := slices.ContainsFunc(want, func(v parquet.Value) bool { return v.Kind() == parquet.Double && math.IsNaN(v.Double()) })
			hasBounds := bytes.Equal(x.Statistics.MinValue, y.Statistics.MinValue) && bytes.Equal(x.Statistics.MaxValue, y.Statistics.MaxValue)
			isSame := hasBounds || isNaN
			if !isSame || x.Statistics.NullCount != y.Statistics.NullCount || x.NumValues != y.NumValues || x.Type != y.Type {
				t.Errorf("row group %d, column %v: the statistics are %v, want %v", g, name, x.Statistics, y.Statistics)
			}
		}
	}
}

func open(t *testing.T, content []byte) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func sameValue(a, b parquet.Value) bool {
	isSame := a.RepetitionLevel() == b.RepetitionLevel() && a.DefinitionLevel() == b.DefinitionLevel()
	return isSame && a.Kind() == b.Kind() && bytes.Equal(a.Bytes(), b.Bytes())
}

// valuesOf reads a column, and checks that the index of its pages has their bounds.
func valuesOf(t *testing.T, c parquet.ColumnChunk) (all []parquet.Value) {
	t.Helper()
	index, err := c.ColumnIndex()
	if err != nil {
		t.Fatal(err)
	}
	pages := c.Pages()
	defer pages.Close()
	compare := c.Type().Compare
	for n := 0; ; n++ {
		p, err := pages.ReadPage()
		if err != nil {
			if n != index.NumPages() {
				t.Errorf("%d pages, and the index has %d: %v", n, index.NumPages(), err)
			}
			return all
		}
		values := make([]parquet.Value, p.NumValues())
		if n, err := p.Values().ReadValues(values); n != len(values) {
			t.Fatalf("%d of %d values: %v", n, len(values), err)
		}
		for _, v := range values {
			isNaN := v.Kind() == parquet.Double && math.IsNaN(v.Double())
			isOrdered := !v.IsNull() && !isNaN
			isInside := func() bool { return compare(v, index.MinValue(n)) >= 0 && compare(v, index.MaxValue(n)) <= 0 }
			if isOrdered && !isInside() {
				t.Errorf("page %d has %v, and the index from %v to %v", n, v, index.MinValue(n), index.MaxValue(n))
			}
			all = append(all, v.Clone())
		}
	}
}

// counting counts the pages that are compressed.
type counting struct {
	compress.Codec
	pages int
}

func (c *counting) Encode(dst, src []byte) ([]byte, error) {
	c.pages++
	return c.Codec.Encode(dst, src)
}

// Pages that compression does not make smaller are stored without it, and most of those that follow are not tried.
func TestPagesThatAreNotCompressed(t *testing.T) {
	c := &counting{Codec: codec}
	codec = c
	t.Cleanup(func() { codec = c.Codec })
	schema := parquet.NewSchema("x", parquet.Group{"v": intNode()})
	var file bytes.Buffer
	w, err := newTable(&file, schema, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 1000
	r := rand.New(rand.NewPCG(1, 1))
	w.columns[0].pageValues = rows
	var want []int64
	for page := range 40 {
		isRandom := page < 16 || page >= 32
		values := make([]rt.Opt[int64], rows)
		for i := range values {
			v := int64(i % 7)
			if isRandom {
				v = int64(r.Uint64())
			}
			values[i].Set(v)
			want = append(want, v)
		}
		if err := putSigned(w.columns[0], values); err != nil {
			t.Fatal(err)
		}
		if err := w.added(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if c.pages != 2+16+1 {
		t.Errorf("%d of 40 pages were compressed, want 2 of 16, 16 and 1 of 8", c.pages)
	}
	type row struct {
		V int64 `parquet:"v"`
	}
	got, err := parquet.Read[row](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, func(r row, v int64) bool { return r.V == v }) {
		t.Error("the values differ")
	}
}
