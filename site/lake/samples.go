package lake

import (
	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// sampleRows is the number of samples that are converted together, column by column.
const sampleRows = 64

// sampleEncoder converts snapshots to the values of the columns of samples. It is made from the tables of
// figures of package rt, so that a new figure is a new column.
type sampleEncoder struct {
	schema   *parquet.Schema
	about    map[string]Description
	constant []*constant
	scalars  []scalars
	current  *current
	lists    []list
	runs     []stretch // of the batch
	rows     int       // of the batch
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

func newSampleEncoder() *sampleEncoder {
	e := &sampleEncoder{constant: constants(), current: &current{}, lists: lists(), about: map[string]Description{}}
	e.scalars = e.current.columns()
	group := parquet.Group{}
	for _, c := range e.constant {
		group[c.name] = c.node
	}
	for _, s := range e.scalars {
		s.nodes(group, e.describe)
	}
	for _, l := range e.lists {
		group[l.name()] = l.node(e.describe)
	}
	e.schema = parquet.NewSchema("sample", group)
	for _, c := range e.constant {
		c.index = indexOf(e.schema, c.name)
	}
	for _, s := range e.scalars {
		s.bind(e.schema)
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
	e.current.set(s)
	for _, c := range e.scalars {
		c.add(e.rows)
	}
	for _, l := range e.lists {
		l.add(s, e.rows)
	}
	e.rows++
	e.runs[len(e.runs)-1].rows++
	return e.rows == sampleRows
}

// flush adds the batch to the columns of a file, and returns the number of samples.
func (e *sampleEncoder) flush(to []*chunk) (rows int, err error) {
	rows = e.rows
	if rows == 0 {
		return 0, nil
	}
	for _, r := range e.runs {
		if r.rows == 0 {
			continue
		}
		for i, c := range e.constant {
			if err := to[c.index].putSame(r.values[i], r.rows); err != nil {
				return 0, err
			}
		}
	}
	for _, c := range e.scalars {
		if err := c.flush(to, rows); err != nil {
			return 0, err
		}
	}
	for _, l := range e.lists {
		if err := l.flush(to, rows); err != nil {
			return 0, err
		}
	}
	e.runs = append(e.runs[:0], stretch{values: e.runs[len(e.runs)-1].values})
	e.rows = 0
	return rows, nil
}

// reset drops the samples that were not flushed.
func (e *sampleEncoder) reset() {
	e.rows, e.runs = 0, e.runs[:0]
	for _, l := range e.lists {
		l.reset()
	}
}
