package lake

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// list is a list of a snapshot, such as the GPUs: a column with a list of groups.
type list interface {
	name() string
	node(describe func(string, Description)) parquet.Node
	bind(*parquet.Schema)
	add(columns [][]parquet.Value, s *rt.Snapshot, row int)
	pad(columns [][]parquet.Value, row int)
	flush(to []*chunk, columns [][]parquet.Value, rows int) error
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

func (l *listOf[T, P]) flush(to []*chunk, columns [][]parquet.Value, rows int) error {
	hasNone := l.rows == 0
	if !hasNone {
		l.pad(columns, rows)
		l.rows = 0
	}
	for i := range l.fields {
		at := l.fields[i].index
		var err error
		if hasNone {
			err = to[at].putNulls(rows)
		} else {
			err = to[at].put(columns[at])
		}
		if err != nil {
			return err
		}
	}
	return nil
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
