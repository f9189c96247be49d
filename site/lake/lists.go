package lake

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// list is a list of a snapshot, such as the GPUs: a column with a list of groups.
type list interface {
	name() string
	node(describe func(string, Description)) parquet.Node
	bind(*parquet.Schema)
	add(s *rt.Snapshot, row int)
	flush(to []*chunk, rows int) error
	reset()
}

// fielder is a pointer to an element of a list.
type fielder[T any] interface {
	*T
	Fields() []rt.Field
}

// listOf is a list of elements of the type T.
type listOf[T any, P fielder[T]] struct {
	title       string
	of          func(*rt.Snapshot) []T
	scratch     T // to which the fields point
	fields      []listField
	rows        int    // that the fields have of this batch
	repetitions []byte // of the batch, the same for each field
}

// listField is a field of the elements of a list.
type listField struct {
	rt.Field
	index int
	add   func(*pending) bool
	batch pending
}

// pending is values of a batch: a page, and its texts, which are not yet in the dictionary.
type pending struct {
	page
	words []string
}

func (p *pending) reset() {
	p.page.reset()
	p.words = p.words[:0]
}

func newList[T any, P fielder[T]](title string, of func(*rt.Snapshot) []T) *listOf[T, P] {
	l := &listOf[T, P]{title: title, of: of}
	for _, f := range P(&l.scratch).Fields() {
		l.fields = append(l.fields, listField{Field: f, add: adder(f.At)})
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
	}
}

// The definition levels of a field: the list is absent, the field is, or it has a value.
const (
	noList   = 0
	noField  = 2
	hasField = 3
)

func (l *listOf[T, P]) add(s *rt.Snapshot, row int) {
	elements := l.of(s)
	if len(elements) == 0 {
		return
	}
	l.pad(row)
	l.rows = row + 1
	for n := range elements {
		l.scratch = elements[n]
		l.repetitions = append(l.repetitions, byte(min(n, 1)))
		for i := range l.fields {
			f := &l.fields[i]
			level := byte(noField)
			if f.add(&f.batch) {
				level = hasField
			}
			f.batch.definitions = append(f.batch.definitions, level)
		}
	}
}

// pad adds the absent lists of the rows before a row.
func (l *listOf[T, P]) pad(row int) {
	missing := row - l.rows
	if missing == 0 {
		return
	}
	l.repetitions = append(l.repetitions, make([]byte, missing)...)
	for i := range l.fields {
		p := &l.fields[i].batch
		p.definitions = append(p.definitions, make([]byte, missing)...)
	}
}

// flush adds the batch to the columns of a file.
func (l *listOf[T, P]) flush(to []*chunk, rows int) error {
	hasNone := l.rows == 0
	if !hasNone {
		l.pad(rows)
	}
	for i := range l.fields {
		f := &l.fields[i]
		var err error
		if hasNone {
			err = to[f.index].putNulls(rows)
		} else {
			err = to[f.index].putBatch(&f.batch, l.repetitions, rows)
		}
		if err != nil {
			return err
		}
	}
	l.reset()
	return nil
}

func (l *listOf[T, P]) reset() {
	l.rows, l.repetitions = 0, l.repetitions[:0]
	for i := range l.fields {
		l.fields[i].batch.reset()
	}
}

// adder returns how the value of a field is added, if there is one. A text that is empty is not known.
func adder(at any) func(*pending) bool {
	switch p := at.(type) {
	case *string:
		return func(to *pending) bool {
			if *p == "" {
				return false
			}
			to.words = append(to.words, strings.ToValidUTF8(*p, "?"))
			return true
		}
	case *uint64:
		return func(to *pending) bool {
			to.ints = append(to.ints, int64(min(*p, math.MaxInt64)))
			return true
		}
	case *rt.Opt[uint64]:
		return func(to *pending) bool {
			v, ok := p.Get()
			if ok {
				to.ints = append(to.ints, int64(min(v, math.MaxInt64)))
			}
			return ok
		}
	}
	value := reader(at) // of a seldom type
	return func(to *pending) bool {
		v, ok := value()
		if !ok {
			return false
		}
		switch v.Kind() {
		case parquet.Int64:
			to.ints = append(to.ints, v.Int64())
		case parquet.Double:
			to.doubles = append(to.doubles, v.Double())
		case parquet.Boolean:
			to.bools = append(to.bools, v.Boolean())
		case parquet.ByteArray:
			to.words = append(to.words, string(v.ByteArray()))
		}
		return true
	}
}

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
