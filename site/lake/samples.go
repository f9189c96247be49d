package lake

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// sampleRows is the number of samples that are converted together, column by column.
const sampleRows = 256

// scalar is a column with one value of each snapshot.
type scalar struct {
	name  string
	node  parquet.Node
	about Description
	fill  func(column int, to []parquet.Value, from []rt.Snapshot) []parquet.Value
	index int // of the column
}

// fillOpt returns the conversion of a figure. Many figures are absent or do not change, so that most values are
// copies of the one before.
func fillOpt[V comparable](value func(V) parquet.Value, of func(*rt.Snapshot) rt.Opt[V]) func(int, []parquet.Value, []rt.Snapshot) []parquet.Value {
	return func(column int, to []parquet.Value, from []rt.Snapshot) []parquet.Value {
		absent := parquet.NullValue().Level(0, 0, column)
		var last V
		before := value(last).Level(0, 1, column)
		for i := range from {
			v, ok := of(&from[i]).Get()
			if !ok {
				to = append(to, absent)
				continue
			}
			if v != last {
				last, before = v, value(v).Level(0, 1, column)
			}
			to = append(to, before)
		}
		return to
	}
}

// sampleEncoder converts snapshots to the values of the columns of samples. It is made from the tables of
// figures of package rt, so that a new figure is a new column.
type sampleEncoder struct {
	schema   *parquet.Schema
	about    map[string]Description
	constant []*constant
	scalars  []*scalar
	lists    []list
	columns  [][]parquet.Value // by the number of the column
	batch    []rt.Snapshot     // their lists are not valid
	runs     []stretch         // of the batch
}

// constant is a column with one value for all samples of a run.
type constant struct {
	name  string
	node  parquet.Node
	value func(*rt.Run) (parquet.Value, bool)
	index int // of the column
}

// stretch is consecutive samples of a run in a batch.
type stretch struct {
	values []parquet.Value // of the constants
	rows   int
}

func constants() []*constant {
	str := func(name string, of func(*rt.Run) string) *constant {
		return &constant{name: name, node: textNode(), value: func(r *rt.Run) (parquet.Value, bool) {
			s := of(r)
			return text(s), s != ""
		}}
	}
	return []*constant{
		str("run_name", func(r *rt.Run) string { return r.FileStem() }),
		{name: "job_id", node: intNode(), value: func(r *rt.Run) (parquet.Value, bool) { return integer(r.JobID.Or(0)), r.JobID.Valid() }},
		str("step", func(r *rt.Run) string { return r.Step }),
		str("node_name", func(r *rt.Run) string { return r.Node }),
		{name: "attempt", node: intNode(), value: func(r *rt.Run) (parquet.Value, bool) { return integer(r.Attempt), true }},
	}
}

// heads are the columns about the snapshot itself.
func heads() []*scalar {
	number := func(of func(*rt.Snapshot) int64) func(int, []parquet.Value, []rt.Snapshot) []parquet.Value {
		return fillOpt(func(v int64) parquet.Value { return parquet.Int64Value(v) }, func(s *rt.Snapshot) rt.Opt[int64] { return rt.Some(of(s)) })
	}
	word := func(of func(*rt.Snapshot) string) func(int, []parquet.Value, []rt.Snapshot) []parquet.Value {
		return fillOpt(text, func(s *rt.Snapshot) rt.Opt[string] { return rt.Some(of(s)) })
	}
	return []*scalar{
		{name: "seq", node: intNode(), fill: number(func(s *rt.Snapshot) int64 { return s.Seq })},
		{name: "time", node: timeNode(), fill: number(func(s *rt.Snapshot) int64 { return s.Wall / 1000 })},
		{name: "boot_us", node: intNode(), about: Description{Unit: string(rt.Micros)}, fill: number(func(s *rt.Snapshot) int64 { return s.Boot / 1000 })},
		{name: "reason", node: textNode(), fill: word(func(s *rt.Snapshot) string { return s.Reason.String() })},
		{name: "job_phase", node: textNode(), fill: word(func(s *rt.Snapshot) string { return s.Job.Phase.String() })},
	}
}

// figuresOf returns the columns of the figures of a noun.
func figuresOf[T any](noun string, figures []rt.Figure[T, uint64], of func(*rt.Snapshot) *T) (list []*scalar) {
	for _, f := range figures {
		f.Unit = unit(f.Unit)
		field := f.Field
		list = append(list, &scalar{
			name: f.Column(noun), node: intNode(), about: Description{string(f.Unit), kindName(f.Kind)},
			fill: fillOpt(integer, func(s *rt.Snapshot) rt.Opt[uint64] { return *field(of(s)) }),
		})
	}
	return list
}

// fractionOf returns the column of a figure with a fraction.
func fractionOf[T any](noun string, f rt.Figure[T, float64], of func(*rt.Snapshot) *T) *scalar {
	return &scalar{
		name: f.Column(noun), node: floatNode(), about: Description{string(f.Unit), kindName(f.Kind)},
		fill: fillOpt(parquet.DoubleValue, func(s *rt.Snapshot) rt.Opt[float64] { return *f.Field(of(s)) }),
	}
}

// ticks returns the columns of the processor times of the node.
func ticks() (list []*scalar) {
	for _, t := range []struct {
		name string
		of   func(*rt.CPUTimes) uint64
	}{
		{"user", func(t *rt.CPUTimes) uint64 { return t.User }}, {"nice", func(t *rt.CPUTimes) uint64 { return t.Nice }},
		{"system", func(t *rt.CPUTimes) uint64 { return t.System }}, {"idle", func(t *rt.CPUTimes) uint64 { return t.Idle }},
		{"iowait", func(t *rt.CPUTimes) uint64 { return t.IOWait }}, {"irq", func(t *rt.CPUTimes) uint64 { return t.IRQ }},
		{"softirq", func(t *rt.CPUTimes) uint64 { return t.SoftIRQ }}, {"steal", func(t *rt.CPUTimes) uint64 { return t.Steal }},
	} {
		list = append(list, &scalar{
			name: "node_cpu_" + t.name + "_ticks", node: intNode(), about: Description{string(rt.Ticks), kindName(rt.Counter)},
			fill: fillOpt(integer, func(s *rt.Snapshot) (v rt.Opt[uint64]) {
				if times, ok := s.Node.CPU.Get(); ok {
					v.Set(t.of(&times))
				}
				return v
			}),
		})
	}
	return list
}

func newSampleEncoder() *sampleEncoder {
	e := &sampleEncoder{constant: constants(), scalars: heads(), lists: lists(), about: map[string]Description{}}
	e.scalars = append(e.scalars, ticks()...)
	e.scalars = append(e.scalars, figuresOf("node", rt.NodeFigures[:], func(s *rt.Snapshot) *rt.NodeReading { return &s.Node })...)
	e.scalars = append(e.scalars, figuresOf("job", rt.JobFigures[:], func(s *rt.Snapshot) *rt.JobReading { return &s.Job })...)
	e.scalars = append(e.scalars, figuresOf("tree", rt.TreeFigures[:], func(s *rt.Snapshot) *rt.TreeReading { return &s.Tree })...)
	e.scalars = append(e.scalars, figuresOf("job_gpu", rt.GPUUseFigures[:], func(s *rt.Snapshot) *rt.GPUUse { return &s.GPU })...)
	e.scalars = append(e.scalars,
		fractionOf("node", rt.NodeGPUUsage, func(s *rt.Snapshot) *rt.NodeReading { return &s.Node }),
		fractionOf("job_gpu", rt.GPUUseUsage, func(s *rt.Snapshot) *rt.GPUUse { return &s.GPU }))
	group := parquet.Group{}
	for _, c := range e.constant {
		group[c.name] = c.node
	}
	for _, s := range e.scalars {
		group[s.name] = s.node
		e.describe(s.name, s.about)
	}
	for _, l := range e.lists {
		group[l.name()] = l.node(e.describe)
	}
	e.schema = parquet.NewSchema("sample", group)
	e.columns = make([][]parquet.Value, len(e.schema.Columns()))
	for _, c := range e.constant {
		c.index = indexOf(e.schema, c.name)
	}
	for _, s := range e.scalars {
		s.index = indexOf(e.schema, s.name)
	}
	for _, l := range e.lists {
		l.bind(e.schema)
	}
	return e
}

func (e *sampleEncoder) describe(name string, d Description) {
	if d != (Description{}) {
		e.about[name] = d
	}
}

// indexOf returns the number of a leaf column.
func indexOf(s *parquet.Schema, path ...string) int {
	leaf, _ := s.Lookup(path...)
	return leaf.ColumnIndex
}

// begin sets the run of the next samples.
func (e *sampleEncoder) begin(run *rt.Run) {
	next := stretch{}
	for _, c := range e.constant {
		v, ok := c.value(run)
		next.values = append(next.values, optional(v, ok, c.index))
	}
	e.runs = append(e.runs, next)
}

// optional is a value of a column outside lists.
func optional(v parquet.Value, ok bool, column int) parquet.Value {
	if !ok {
		return parquet.NullValue().Level(0, 0, column)
	}
	return v.Level(0, 1, column)
}

// add adds a sample. It reports whether the batch is full.
func (e *sampleEncoder) add(s *rt.Snapshot) (isFull bool) {
	for _, l := range e.lists {
		l.add(e.columns, s, len(e.batch))
	}
	e.batch = append(e.batch, *s)
	e.runs[len(e.runs)-1].rows++
	return len(e.batch) == sampleRows
}

// take returns the values of all columns, and the number of samples. They are valid until the next add.
func (e *sampleEncoder) take() ([][]parquet.Value, int) {
	if len(e.batch) == 0 {
		return nil, 0
	}
	for i, c := range e.constant {
		values := e.columns[c.index][:0]
		for _, r := range e.runs {
			for range r.rows {
				values = append(values, r.values[i])
			}
		}
		e.columns[c.index] = values
	}
	e.runs = append(e.runs[:0], stretch{values: e.runs[len(e.runs)-1].values})
	for _, c := range e.scalars {
		e.columns[c.index] = c.fill(c.index, e.columns[c.index][:0], e.batch)
	}
	for _, l := range e.lists {
		l.end(e.columns, len(e.batch))
	}
	n := len(e.batch)
	e.batch = e.batch[:0]
	return e.columns, n
}

// reset drops the samples that were not taken.
func (e *sampleEncoder) reset() {
	e.batch, e.runs = e.batch[:0], e.runs[:0]
	for _, l := range e.lists {
		l.reset()
	}
}

// list is a list of a snapshot, such as the GPUs: a column with a list of groups.
type list interface {
	name() string
	node(describe func(string, Description)) parquet.Node
	bind(*parquet.Schema)
	add(columns [][]parquet.Value, s *rt.Snapshot, row int)
	end(columns [][]parquet.Value, rows int)
	reset()
}

// fielder is a pointer to an element of a list.
type fielder[T any] interface {
	*T
	Fields() []rt.Field
}

// listOf is a list of elements of the type T.
type listOf[T any, P fielder[T]] struct {
	title   string
	of      func(*rt.Snapshot) []T
	scratch T // to which the fields point
	fields  []listField
	rows    int // that the columns have of this batch
}

// listField is a field of the elements of a list.
type listField struct {
	rt.Field
	index  int
	absent []parquet.Value // of a batch without elements
	value  func() (parquet.Value, bool)
}

func newList[T any, P fielder[T]](title string, of func(*rt.Snapshot) []T) *listOf[T, P] {
	l := &listOf[T, P]{title: title, of: of}
	for _, f := range P(&l.scratch).Fields() {
		l.fields = append(l.fields, listField{Field: f, value: reader(f.At)})
	}
	return l
}

// lists are the lists of a snapshot except the processors.
func lists() []list {
	return []list{
		newList("nets", func(s *rt.Snapshot) []rt.NetReading { return s.Nets }),
		newList("disks", func(s *rt.Snapshot) []rt.DiskReading { return s.Disks }),
		newList("mounts", func(s *rt.Snapshot) []rt.MountReading { return s.Mounts }),
		newList("gpus", func(s *rt.Snapshot) []rt.GPUReading { return s.GPUs }),
		newList("fabrics", func(s *rt.Snapshot) []rt.FabricReading { return s.Fabrics }),
		newList("remote_fs", func(s *rt.Snapshot) []rt.RemoteFSReading { return s.RemoteFS }),
		newList("steps", func(s *rt.Snapshot) []rt.StepReading { return s.Steps }),
		newList("processes", func(s *rt.Snapshot) []rt.ProcessReading { return s.Procs }),
		newList("gpu_processes", func(s *rt.Snapshot) []rt.GPUProcessReading { return s.GPUProcesses }),
		newList("energy", func(s *rt.Snapshot) []rt.EnergyReading { return s.Energy }),
		newList("perf", func(s *rt.Snapshot) []rt.PerfReading { return s.Perf }),
	}
}

func (l *listOf[T, P]) name() string { return l.title }

// fieldName is the name of a field with its unit.
func fieldName(f rt.Field) string {
	f.Unit = unit(f.Unit)
	return f.Column()
}

func (l *listOf[T, P]) node(describe func(string, Description)) parquet.Node {
	group := parquet.Group{}
	for _, f := range l.fields {
		group[fieldName(f.Field)] = nodeOf(f.At)
		describe(l.title+"."+fieldName(f.Field), Description{Unit: string(unit(f.Unit))})
	}
	return parquet.Optional(parquet.List(group))
}

func (l *listOf[T, P]) bind(s *parquet.Schema) {
	for i := range l.fields {
		f := &l.fields[i]
		f.index = indexOf(s, l.title, "list", "element", fieldName(f.Field))
		f.absent = slices.Repeat([]parquet.Value{parquet.NullValue().Level(0, noList, f.index)}, sampleRows)
	}
}

// The definition levels of a field: the list is absent, the field is, or it has a value.
const (
	noList   = 0
	noField  = 2
	hasField = 3
)

func (l *listOf[T, P]) add(columns [][]parquet.Value, s *rt.Snapshot, row int) {
	elements := l.of(s)
	if len(elements) == 0 {
		return
	}
	l.pad(columns, row)
	l.rows = row + 1
	for n := range elements {
		l.scratch = elements[n]
		for i := range l.fields {
			f := &l.fields[i]
			v, ok := f.value()
			if ok {
				v = v.Level(min(n, 1), hasField, f.index)
			} else {
				v = parquet.NullValue().Level(min(n, 1), noField, f.index)
			}
			columns[f.index] = append(columns[f.index], v)
		}
	}
}

// pad adds the absent lists of the rows before a row.
func (l *listOf[T, P]) pad(columns [][]parquet.Value, row int) {
	for i := range l.fields {
		f := &l.fields[i]
		if l.rows == 0 {
			columns[f.index] = columns[f.index][:0]
		}
		columns[f.index] = append(columns[f.index], f.absent[:row-l.rows]...)
	}
}

func (l *listOf[T, P]) end(columns [][]parquet.Value, rows int) {
	l.pad(columns, rows)
	l.rows = 0
}

func (l *listOf[T, P]) reset() { l.rows = 0 }

// nodeOf returns the type of the column of a field.
func nodeOf(at any) parquet.Node {
	switch at.(type) {
	case *bool, *rt.Opt[bool]:
		return boolNode()
	case *rt.Opt[float64]:
		return floatNode()
	case *string, *map[string]string:
		return textNode()
	}
	return intNode()
}

// reader returns how the value of a field is read. A text that is empty is not known.
func reader(at any) func() (parquet.Value, bool) {
	switch p := at.(type) {
	case *string:
		return func() (parquet.Value, bool) { return text(strings.ToValidUTF8(*p, "?")), *p != "" }
	case *bool:
		return func() (parquet.Value, bool) { return parquet.BooleanValue(*p), true }
	case *int:
		return func() (parquet.Value, bool) { return parquet.Int64Value(int64(*p)), true }
	case *uint64:
		return func() (parquet.Value, bool) { return integer(*p), true }
	case *rt.Opt[bool]:
		return func() (parquet.Value, bool) { return parquet.BooleanValue(p.Or(false)), p.Valid() }
	case *rt.Opt[int64]:
		return func() (parquet.Value, bool) { return parquet.Int64Value(p.Or(0)), p.Valid() }
	case *rt.Opt[uint64]:
		return func() (parquet.Value, bool) { return integer(p.Or(0)), p.Valid() }
	case *rt.Opt[float64]:
		return func() (parquet.Value, bool) { return parquet.DoubleValue(p.Or(0)), p.Valid() }
	case *map[string]string:
		return func() (parquet.Value, bool) { return jsonText(*p), len(*p) > 0 }
	}
	return func() (parquet.Value, bool) { return parquet.NullValue(), false }
}

// jsonText is a map as a JSON object.
func jsonText(m map[string]string) parquet.Value {
	content, err := json.Marshal(m)
	if err != nil { // maps of texts have none
		return parquet.NullValue()
	}
	return text(string(content))
}
