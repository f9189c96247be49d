package spool

import (
	"database/sql/driver"
	"slices"

	"github.com/resource-tracker/rt"
)

// deviceWriter writes the devices of one list. For a new device it writes the identity. It writes a
// reading if the reading differs from the last one of the device, and at each keyframe. It writes a
// row with gone = 1 when the device has disappeared. Its statements are prepared at the first
// device, because in most runs most lists are empty.
type deviceWriter[T any] struct {
	of                      *listTable[T]
	c                       *conn
	insertID, insertReading *stmt
	bound                   T // the columns id and values point to its fields
	id, values              []column
	count                   *deviceCount
	known                   []knownDevice[T]
	at                      int // index in known at which the next device is expected
}

// listWriter is a deviceWriter of any type.
type listWriter interface {
	size() int
	forget()
	rollback(n int)
	put(seq int64, keyframe bool, s *rt.Snapshot) error
	end(seq int64, keyframe bool) error
}

// deviceCount holds, for one table of readings, the last device id and the last rowid that were
// assigned.
type deviceCount struct{ id, row int64 }

type knownDevice[T any] struct {
	id            int64
	identity      T // without the values
	last          T
	present, seen bool // in the previous snapshot, in this one
}

func (t *listTable[T]) writer(c *conn, counts *[numReadings]deviceCount) listWriter {
	w := &deviceWriter[T]{of: t, c: c, count: &counts[t.from.table]}
	w.id, w.values = t.columns(&w.bound)
	return w
}

func (w *deviceWriter[T]) prepare() (err error) {
	w.insertID, err = w.c.prepare("INSERT INTO " + w.of.name + " (id, slot, " + names(w.id) + ") VALUES (" + placeholders(2+len(w.id)) + ")")
	if err != nil {
		return err
	}
	w.insertReading, err = w.c.prepare("INSERT INTO " + readingTables[w.of.from.table].name + " (seq, " + w.of.from.column + ", " +
		names(w.values) + ", gone) VALUES (" + placeholders(3+len(w.values)) + ")")
	return err
}

// put writes the devices of snapshot seq.
func (w *deviceWriter[T]) put(seq int64, keyframe bool, s *rt.Snapshot) error {
	list := *w.of.list(s)
	if len(list) > 0 && w.insertReading == nil {
		if err := w.prepare(); err != nil {
			return err
		}
	}
	for i := range list {
		if err := w.putOne(seq, keyframe, i, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// putOne writes device number slot of snapshot seq.
func (w *deviceWriter[T]) putOne(seq int64, keyframe bool, slot int, device *T) error {
	w.bound = *device
	clearFields(w.values)
	n := w.find()
	if n < 0 {
		n = len(w.known)
		w.count.id++
		w.insertID.bindFrom(0, w.count.id, int64(slot))
		w.insertID.bindColumns(2, w.id)
		if err := w.insertID.run(); err != nil {
			return err
		}
		w.known = append(w.known, knownDevice[T]{id: w.count.id, identity: w.bound})
	}
	w.at = n + 1
	k := &w.known[n]
	k.seen = true
	if k.present && !keyframe && w.of.same(&k.last, device) {
		return nil
	}
	k.last, w.bound = *device, *device
	w.insertReading.bindColumns(2, w.values)
	return w.reading(seq, k.id, nil)
}

// find returns the index of the known device with the identity in bound, except devices that were
// already put in this snapshot. It returns -1 for a new device.
func (w *deviceWriter[T]) find() int {
	for i := range w.known {
		n := (w.at + i) % len(w.known)
		if k := &w.known[n]; !k.seen && w.of.same(&k.identity, &w.bound) {
			return n
		}
	}
	return -1
}

// reading inserts the reading with the values that are bound.
func (w *deviceWriter[T]) reading(seq, id int64, gone driver.Value) error {
	w.insertReading.bindFrom(0, seq, id)
	w.insertReading.args[len(w.insertReading.args)-1].Value = gone
	w.count.row++
	return w.insertReading.run()
}

// end completes snapshot seq: it writes gone = 1 for each device of the previous snapshot that was
// not put in this one.
func (w *deviceWriter[T]) end(seq int64, keyframe bool) error {
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

// maxKnown is the number of identities in memory above which forget drops some.
const maxKnown = 128

// forget drops the identities of devices that are gone, if there are more than maxKnown identities.
// Most of the dropped ones are ended processes. If a dropped device appears again, it gets a new
// identity.
func (w *deviceWriter[T]) forget() {
	if len(w.known) > maxKnown {
		w.known = slices.DeleteFunc(w.known, func(k knownDevice[T]) bool { return !k.present })
	}
}

func (w *deviceWriter[T]) size() int { return len(w.known) }

// rollback keeps the first n identities. It drops the later ones, because the database does not have
// them.
func (w *deviceWriter[T]) rollback(n int) {
	w.known, w.at = w.known[:n], 0
	for i := range w.known {
		w.known[i].seen = false
	}
}

// devices writes all lists of a snapshot.
type devices struct {
	lists  [len(storedLists)]listWriter
	counts [numReadings]deviceCount
}

func (d *devices) prepare(c *conn) {
	for i, l := range storedLists {
		d.lists[i] = l.writer(c, &d.counts)
	}
}

// mark is a position to which rollback returns.
type mark struct {
	counts [numReadings]deviceCount
	known  [len(storedLists)]int
}

func (d *devices) mark() mark {
	m := mark{counts: d.counts}
	for i, w := range d.lists {
		w.forget()
		m.known[i] = w.size()
	}
	return m
}

// rollback returns to a mark. After that the last stored readings of the devices are not known, so
// the next snapshot must be a keyframe.
func (d *devices) rollback(m mark) {
	d.counts = m.counts
	for i, w := range d.lists {
		w.rollback(m.known[i])
	}
}

// put writes the devices of s as those of snapshot seq. It stops at the first error: SQLite
// may have rolled back the transaction, and would commit each later row by itself.
func (d *devices) put(seq int64, keyframe bool, s *rt.Snapshot) error {
	for _, w := range d.lists {
		if err := w.put(seq, keyframe, s); err != nil {
			return err
		}
	}
	for _, w := range d.lists {
		if err := w.end(seq, keyframe); err != nil {
			return err
		}
	}
	return nil
}
