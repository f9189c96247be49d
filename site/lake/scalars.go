package lake

import (
	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// scalars are columns with one value of each snapshot, of one type.
type scalars interface {
	nodes(group parquet.Group, describe func(string, Description))
	bind(*parquet.Schema)
	add(row int)
	flush(to []*chunk, rows int) error
}

// current is the snapshot that is added to the columns, which point into it: a copy is cheaper than finding each field.
type current struct {
	rt.Snapshot
	seq, time, boot rt.Opt[int64]
	reason, phase   rt.Opt[string]
	ticks           [8]rt.Opt[uint64]
}

func (c *current) set(s *rt.Snapshot) {
	c.Snapshot = *s
	c.seq.Set(s.Seq)
	c.time.Set(s.Wall / 1000)
	c.boot.Set(s.Boot / 1000)
	c.reason.Set(s.Reason.String())
	c.phase.Set(s.Job.Phase.String())
	t, ok := s.Node.CPU.Get()
	if !ok {
		c.ticks = [8]rt.Opt[uint64]{}
		return
	}
	for i, v := range [...]uint64{t.User, t.Nice, t.System, t.Idle, t.IOWait, t.IRQ, t.SoftIRQ, t.Steal} {
		c.ticks[i].Set(v)
	}
}

// columns returns the columns of the snapshot.
func (c *current) columns() []scalars {
	heads := newColumns(intNode, putSigned)
	heads.append("seq", Description{}, &c.seq)
	heads.append("boot_us", Description{Unit: string(rt.Micros)}, &c.boot)
	times := newColumns(timeNode, putSigned)
	times.append("time", Description{}, &c.time)
	words := newColumns(textNode, putTexts)
	words.append("reason", Description{}, &c.reason)
	words.append("job_phase", Description{}, &c.phase)
	figures := newColumns(intNode, putUnsigned)
	for i, name := range [...]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
		figures.append("node_cpu_"+name+"_ticks", Description{string(rt.Ticks), kindName(rt.Counter)}, &c.ticks[i])
	}
	appendFigures(figures, "node", &c.Node, rt.NodeFigures[:]...)
	appendFigures(figures, "job", &c.Job, rt.JobFigures[:]...)
	appendFigures(figures, "tree", &c.Tree, rt.TreeFigures[:]...)
	appendFigures(figures, "job_gpu", &c.GPU, rt.GPUUseFigures[:]...)
	fractions := newColumns(floatNode, putDoubles)
	appendFigures(fractions, "node", &c.Node, rt.NodeGPUUsage)
	appendFigures(fractions, "job_gpu", &c.GPU, rt.GPUUseUsage)
	return []scalars{heads, times, words, figures, fractions}
}

// columnsOf are the columns of values of the type V.
type columnsOf[V comparable] struct {
	node    func() parquet.Node
	put     func(*chunk, []rt.Opt[V]) error
	names   []string
	about   []Description
	from    []*rt.Opt[V]             // where the value of the current snapshot is
	values  []*[sampleRows]rt.Opt[V] // of the batch
	indexes []int                    // of the columns
}

func newColumns[V comparable](node func() parquet.Node, put func(*chunk, []rt.Opt[V]) error) *columnsOf[V] {
	return &columnsOf[V]{node: node, put: put}
}

func (c *columnsOf[V]) append(name string, about Description, from *rt.Opt[V]) {
	c.names, c.about, c.from = append(c.names, name), append(c.about, about), append(c.from, from)
	c.values = append(c.values, new([sampleRows]rt.Opt[V]))
}

// appendFigures adds the columns of the figures of a noun.
func appendFigures[T any, V comparable](c *columnsOf[V], noun string, of *T, figures ...rt.Figure[T, V]) {
	for _, f := range figures {
		f.Unit = unit(f.Unit)
		c.append(f.Column(noun), Description{string(f.Unit), kindName(f.Kind)}, f.Field(of))
	}
}

func (c *columnsOf[V]) nodes(group parquet.Group, describe func(string, Description)) {
	for i, name := range c.names {
		group[name] = c.node()
		describe(name, c.about[i])
	}
}

func (c *columnsOf[V]) bind(s *parquet.Schema) {
	for _, name := range c.names {
		c.indexes = append(c.indexes, indexOf(s, name))
	}
}

// add takes the values of the current snapshot.
func (c *columnsOf[V]) add(row int) {
	for i, from := range c.from {
		c.values[i][row] = *from
	}
}

// flush adds the batch to the columns of a file.
func (c *columnsOf[V]) flush(to []*chunk, rows int) error {
	for i, values := range c.values {
		if err := c.put(to[c.indexes[i]], values[:rows]); err != nil {
			return err
		}
	}
	return nil
}
