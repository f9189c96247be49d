package spool

import (
	"database/sql/driver"
	"encoding/json"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// gpuID identifies and describes a GPU. A different identity is a different row of its
// table, so that a change is stored with its time.
type (
	gpuID struct {
		uuid, name, kind, host, detail string
		vram, cores                    rt.Opt[uint64]
		inJob                          rt.Opt[bool]
	}
)

// gpuValue is what was read of a GPU.
type (
	gpuValue struct {
		utilization, power           rt.Opt[float64]
		vram, temperature, frequency rt.Opt[uint64]
	}
)

// deviceWriter writes the devices of one list: an identity when it is new, a reading when it
// differs from the last one, and a row with gone = 1 when the device has disappeared.
type deviceWriter[I, V comparable] struct {
	insertID, insertReading *stmt
	bindID                  func(s *stmt, id I) // from parameter 2 on
	bindValue               func(s *stmt, v V)  // from parameter 2 on
	count                   *deviceCount
	known                   []knownDevice[I, V]
	at                      int // where the next device is expected
}

// deviceCount holds the last id and the last rowid of a table of readings.
type deviceCount struct{ id, row int64 }

type knownDevice[I, V comparable] struct {
	id            int64
	identity      I
	value         V
	present, seen bool // in the previous snapshot, in this one
}

// put writes device number slot of snapshot seq.
func (w *deviceWriter[I, V]) put(seq int64, keyframe bool, slot int, identity I, v V) error {
	n := w.find(identity)
	if n < 0 {
		n = len(w.known)
		w.count.id++
		w.insertID.bindFrom(0, w.count.id, int64(slot))
		w.bindID(w.insertID, identity)
		if err := w.insertID.run(); err != nil {
			return err
		}
		w.known = append(w.known, knownDevice[I, V]{id: w.count.id, identity: identity})
	}
	w.at = n + 1
	k := &w.known[n]
	k.seen = true
	if k.present && k.value == v && !keyframe {
		return nil
	}
	k.value = v
	w.bindValue(w.insertReading, v)
	return w.reading(seq, k.id, nil)
}

// find returns the index of a device that was not put in this snapshot yet, -1 for a new one.
func (w *deviceWriter[I, V]) find(identity I) int {
	for i := range w.known {
		n := (w.at + i) % len(w.known)
		if k := &w.known[n]; !k.seen && k.identity == identity {
			return n
		}
	}
	return -1
}

// reading inserts the reading with the values that are bound.
func (w *deviceWriter[I, V]) reading(seq, id int64, gone driver.Value) error {
	w.insertReading.bindFrom(0, seq, id)
	w.insertReading.args[len(w.insertReading.args)-1].Value = gone
	w.count.row++
	return w.insertReading.run()
}

// end closes snapshot seq: a device of the previous snapshot that was not put is gone.
func (w *deviceWriter[I, V]) end(seq int64, keyframe bool) error {
	w.at = 0
	for n := range w.known {
		k := &w.known[n]
		gone := k.present && !k.seen && !keyframe // a keyframe lists all devices
		k.present, k.seen = k.seen, false
		if !gone {
			continue
		}
		for i := range w.insertReading.args {
			w.insertReading.args[i].Value = nil
		}
		if err := w.reading(seq, k.id, int64(1)); err != nil {
			return err
		}
	}
	return nil
}

// maxKnown bounds the identities in memory, most of which are those of ended processes. If
// one of them appears again, it is written as a new one.
const maxKnown = 512

// forget drops the identities that are gone if there are more than maxKnown.
func (w *deviceWriter[I, V]) forget() {
	if len(w.known) > maxKnown {
		w.known = slices.DeleteFunc(w.known, func(k knownDevice[I, V]) bool { return !k.present })
	}
}

func (w *deviceWriter[I, V]) size() int { return len(w.known) }

// rollback drops the identities beyond the first n, which are not in the database.
func (w *deviceWriter[I, V]) rollback(n int) {
	w.known, w.at = w.known[:n], 0
	for i := range w.known {
		w.known[i].seen = false
	}
}

// devices writes all lists of a snapshot.
type devices struct {
	gpu   deviceWriter[gpuID, gpuValue]
	lists [len(storedLists)]listWriter

	all    [len(storedLists) + 1]anyDeviceWriter
	counts [numReadings]deviceCount
	detail []gpuDetail // per GPU, so that it is encoded once
}

type anyDeviceWriter interface {
	size() int
	forget()
	rollback(n int)
	end(seq int64, keyframe bool) error
}

type gpuDetail struct {
	from map[string]string
	json string
}

func (d *devices) prepare(c *conn) (err error) {
	insert := func(to **stmt, table string, parameters int) {
		if err == nil {
			*to, err = c.prepare("INSERT INTO " + table + " VALUES (" + placeholders(parameters) + ")")
		}
	}
	insert(&d.gpu.insertID, "gpu", 10)
	insert(&d.gpu.insertReading, "gpu_reading", 8)
	d.gpu.count = &d.counts[readingsOfGPUs]
	d.gpu.bindID, d.gpu.bindValue = bindGPUID, bindGPU
	d.all[len(storedLists)] = &d.gpu
	for i, l := range storedLists {
		d.lists[i] = l.writer(c, &d.counts)
		d.all[i] = d.lists[i]
	}
	return err
}

// mark is a position to which rollback returns.
type mark struct {
	counts [numReadings]deviceCount
	known  [len(storedLists) + 1]int
}

func (d *devices) mark() mark {
	m := mark{counts: d.counts}
	for i, w := range d.all {
		w.forget()
		m.known[i] = w.size()
	}
	return m
}

// rollback returns to a mark. The last readings of the devices are not known any more: the
// next snapshot must be a keyframe.
func (d *devices) rollback(m mark) {
	d.counts = m.counts
	for i, w := range d.all {
		w.rollback(m.known[i])
	}
}

// put writes the devices of s as those of snapshot seq. It stops at the first error: SQLite
// may have rolled back the transaction, and later rows would remain.
func (d *devices) put(seq int64, keyframe bool, s *rt.Snapshot) error {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		id := gpuID{g.UUID, g.Name, g.Type, g.Host, d.detailOf(i, g.Detail), g.VRAMTotal, g.Cores, g.InJob}
		v := gpuValue{g.Utilization, g.Power, g.VRAMUsed, g.Temperature, g.Frequency}
		if err := d.gpu.put(seq, keyframe, i, id, v); err != nil {
			return err
		}
	}
	for _, w := range d.lists {
		if err := w.putAll(seq, keyframe, s); err != nil {
			return err
		}
	}
	for _, w := range d.all {
		if err := w.end(seq, keyframe); err != nil {
			return err
		}
	}
	return nil
}

// detailOf returns the JSON of a GPU's details, empty for none.
func (d *devices) detailOf(gpu int, detail map[string]string) string {
	if len(detail) == 0 {
		return ""
	}
	for len(d.detail) <= gpu {
		d.detail = append(d.detail, gpuDetail{})
	}
	last := &d.detail[gpu]
	if !maps.Equal(last.from, detail) {
		text, _ := json.Marshal(detail) // strings always marshal
		*last = gpuDetail{maps.Clone(detail), string(text)}
	}
	return last.json
}

func bindGPUID(s *stmt, id gpuID) {
	s.bindFrom(2, textValue(id.uuid), textValue(id.name), textValue(id.kind), textValue(id.host), optValue(id.vram), optValue(id.cores), textValue(id.detail), optValue(id.inJob))
}

func bindGPU(s *stmt, v gpuValue) {
	s.bindFrom(2, optValue(v.utilization), optValue(v.vram), optValue(v.temperature), optValue(v.power), optValue(v.frequency))
}

// textValue returns NULL for an empty text, which means not reported.
func textValue(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

// optValue returns NULL for a value that was not read.
func optValue[T int64 | uint64 | float64 | bool](o rt.Opt[T]) driver.Value {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	switch v := any(v).(type) {
	case uint64:
		return int64(v)
	default:
		return v
	}
}
