package spool

import (
	"database/sql/driver"
	"fmt"

	"github.com/resource-tracker/rt"
)

// listTable says how the elements of one list of a snapshot are stored: what identifies
// or describes an element in a table of its own, what was read of it in a table of readings.
type listTable[T comparable] struct {
	name string                  // of the table of identities
	from readings                // the table of readings
	list func(*rt.Snapshot) *[]T // the list
}

// storedList is a listTable of any type.
type storedList interface {
	writer(c *conn, counts *[numReadings]deviceCount) listWriter
	reader(c *conn, from *keyframe) (listReader, error)
}

// storedLists are all lists except the CPUs, which are in core_ticks, and the GPUs, which have
// a map.
var storedLists = [...]storedList{
	&listTable[rt.NetReading]{"net", ofDevice, func(s *rt.Snapshot) *[]rt.NetReading { return &s.Nets }},
	&listTable[rt.DiskReading]{"disk", ofDevice, func(s *rt.Snapshot) *[]rt.DiskReading { return &s.Disks }},
	&listTable[rt.MountReading]{"mount", ofDevice, func(s *rt.Snapshot) *[]rt.MountReading { return &s.Mounts }},
	&listTable[rt.StepReading]{"step", readings{readingsOfSteps, "step"}, func(s *rt.Snapshot) *[]rt.StepReading { return &s.Steps }},
	&listTable[rt.ProcessReading]{"process", readings{readingsOfProcesses, "process"}, func(s *rt.Snapshot) *[]rt.ProcessReading { return &s.Procs }},
	&listTable[rt.GPUProcessReading]{"gpu_process", ofCounter, func(s *rt.Snapshot) *[]rt.GPUProcessReading { return &s.GPUProcesses }},
	&listTable[rt.FabricReading]{"fabric", ofCounter, func(s *rt.Snapshot) *[]rt.FabricReading { return &s.Fabrics }},
	&listTable[rt.RemoteFSReading]{"remote_fs", ofCounter, func(s *rt.Snapshot) *[]rt.RemoteFSReading { return &s.RemoteFS }},
	&listTable[rt.EnergyReading]{"energy", ofCounter, func(s *rt.Snapshot) *[]rt.EnergyReading { return &s.Energy }},
	&listTable[rt.PerfReading]{"perf", ofCounter, func(s *rt.Snapshot) *[]rt.PerfReading { return &s.Perf }},
}

// The tables of readings.
const (
	readingsOfDevices = iota
	readingsOfGPUs
	readingsOfCounters
	readingsOfSteps
	readingsOfProcesses
	numReadings
)

// readingTables lists their names and the columns of keyframe that hold their last rows.
var readingTables = [numReadings]struct{ name, keyframe string }{
	{"device_reading", "device_row"}, {"gpu_reading", "gpu_row"}, {"counter_value", "counter_row"},
	{"step_value", "step_row"}, {"process_value", "process_row"},
}

// readings is a table of readings and its column that refers to the table of identities.
type readings struct {
	table  int
	column string
}

// Several lists share these tables. Their columns of values are value1, value2, and so on.
var (
	ofDevice  = readings{readingsOfDevices, "device"}
	ofCounter = readings{readingsOfCounters, "device"}
)

// columns lists the columns that hold an element.
func (t *listTable[T]) columns(element *T) (identity, values []column) {
	shared := t.from.table == readingsOfDevices || t.from.table == readingsOfCounters
	for _, f := range any(element).(interface{ Fields() []rt.Field }).Fields() {
		c := column{f.Column(), f.At}
		if f.Unit == rt.KiB {
			c.field = inKiB{f.At.(*rt.Opt[uint64])}
		}
		switch {
		case f.Role != rt.Value:
			identity = append(identity, c)
			continue
		case shared:
			c.name = fmt.Sprintf("value%d", len(values)+1)
		}
		values = append(values, c)
	}
	return identity, values
}

// clearFields makes the fields of values absent.
func clearFields(values []column) {
	for _, c := range values {
		switch p := c.field.(type) {
		case *rt.Opt[uint64]:
			p.Clear()
		case inKiB:
			p.Clear()
		case *rt.Opt[float64]:
			p.Clear()
		case *uint64:
			*p = 0
		case *bool:
			*p = false
		}
	}
}

// listWriter is a tableWriter of any type.
type listWriter interface {
	anyDeviceWriter
	putAll(seq int64, keyframe bool, s *rt.Snapshot) error
}

// tableWriter writes the elements of one list. Its statements are prepared when there is a
// first element: most runs have few lists.
type tableWriter[T comparable] struct {
	deviceWriter[T, T]
	of         *listTable[T]
	c          *conn
	bound      T // the columns point into it
	id, values []column
	ready      bool
}

func (t *listTable[T]) writer(c *conn, counts *[numReadings]deviceCount) listWriter {
	w := &tableWriter[T]{c: c, of: t}
	w.count = &counts[t.from.table]
	w.id, w.values = t.columns(&w.bound)
	bind := func(columns []column) func(*stmt, T) {
		return func(s *stmt, v T) {
			w.bound = v
			for i, c := range columns {
				s.args[2+i].Value = encode(c.field)
			}
		}
	}
	w.bindID, w.bindValue = bind(w.id), bind(w.values)
	return w
}

func (w *tableWriter[T]) prepare() (err error) {
	w.insertID, err = w.c.prepare("INSERT INTO " + w.of.name + " (id, slot, " + names(w.id) + ") VALUES (" + placeholders(2+len(w.id)) + ")")
	if err != nil {
		return err
	}
	w.insertReading, err = w.c.prepare("INSERT INTO " + readingTables[w.of.from.table].name + " (seq, " + w.of.from.column + ", " +
		names(w.values) + ", gone) VALUES (" + placeholders(3+len(w.values)) + ")")
	w.ready = err == nil
	return err
}

// putAll writes the readings of snapshot seq.
func (w *tableWriter[T]) putAll(seq int64, keyframe bool, s *rt.Snapshot) error {
	list := *w.of.list(s)
	if len(list) > 0 && !w.ready {
		if err := w.prepare(); err != nil {
			return err
		}
	}
	for i, v := range list {
		w.bound = v
		clearFields(w.values)
		if err := w.put(seq, keyframe, i, w.bound, v); err != nil {
			return err
		}
	}
	return nil
}

// listReader is a tableReader of any type.
type listReader interface {
	readAll(s *rt.Snapshot, keyframe bool) error
	close()
}

// tableReader reads the elements of one list.
type tableReader[T comparable] struct {
	deviceReader[T]
	of *listTable[T]
}

func (t *listTable[T]) reader(c *conn, from *keyframe) (listReader, error) {
	bound := new(T)
	_, values := t.columns(bound)
	r := &tableReader[T]{of: t}
	identity := func(element *T) []column { id, _ := t.columns(element); return id }
	return r, r.open(c, t.name, t.from, names(values), from, identity, func(row []driver.Value, element *T) error {
		*bound = *element
		clearFields(values)
		if err := scan(row, values); err != nil {
			return err
		}
		*element = *bound
		return nil
	})
}

func (r *tableReader[T]) readAll(s *rt.Snapshot, keyframe bool) (err error) {
	list := r.of.list(s)
	*list, err = r.read(s.Seq, keyframe, *list)
	return err
}
