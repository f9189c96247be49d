package spool

import (
	"slices"

	"github.com/resource-tracker/rt"
)

// elementWriter writes the elements of one list: the identity of each new one, and the values of each at
// every snapshot. Its statements are prepared at the first element, because in most runs most lists
// are empty.
type elementWriter[T any] struct {
	of                    *listTable[T]
	c                     *conn
	insertID, insertValue *stmt
	bound                 T // the columns id and values point to its fields
	id, values            []column
	lastID                int64
	known                 []knownElement[T]
	at                    int // index in known at which the next element is expected
}

// listWriter is an elementWriter of any type.
type listWriter interface {
	begin() listMark
	rollback(listMark)
	put(seq int64, s *rt.Snapshot) error
}

// listMark is a position to which rollback returns.
type listMark struct {
	known  int
	lastID int64
}

type knownElement[T any] struct {
	id       int64
	identity T     // without the values
	seq      int64 // the last snapshot that has it
}

func (t *listTable[T]) writer(c *conn) listWriter {
	w := &elementWriter[T]{of: t, c: c}
	w.id, w.values = t.columns(&w.bound)
	return w
}

func (w *elementWriter[T]) prepare() (err error) {
	w.insertID, err = w.c.prepare("INSERT INTO " + w.of.table() + " (id, slot, " + names(w.id) + ") VALUES (" + placeholders(2+len(w.id)) + ")")
	if err != nil {
		return err
	}
	w.insertValue, err = w.c.prepare("INSERT INTO " + w.of.values() + " (seq, " + w.of.table() + ", " + names(w.values) +
		") VALUES (" + placeholders(2+len(w.values)) + ")")
	return err
}

// put writes the elements of snapshot seq.
func (w *elementWriter[T]) put(seq int64, s *rt.Snapshot) error {
	list := *w.of.list(s)
	if len(list) > 0 && w.insertValue == nil {
		if err := w.prepare(); err != nil {
			return err
		}
	}
	w.at = 0
	for slot := range list {
		if err := w.putElement(seq, slot, &list[slot]); err != nil {
			return err
		}
	}
	return nil
}

func (w *elementWriter[T]) putElement(seq int64, slot int, element *T) error {
	w.bound = *element
	clearFields(w.values)
	n := w.find(seq)
	if n < 0 {
		n = len(w.known)
		w.lastID++
		w.insertID.bindFrom(0, w.lastID, int64(slot))
		w.insertID.bindColumns(2, w.id)
		if err := w.insertID.run(); err != nil {
			return err
		}
		w.known = append(w.known, knownElement[T]{id: w.lastID, identity: w.bound})
	}
	w.at = n + 1
	k := &w.known[n]
	k.seq = seq
	w.bound = *element
	w.insertValue.bindFrom(0, seq, k.id)
	w.insertValue.bindColumns(2, w.values)
	return w.insertValue.run()
}

// find returns the index of the known element with the identity in bound, except elements that were
// already put in this snapshot. It returns -1 for a new element.
func (w *elementWriter[T]) find(seq int64) int {
	for i := range w.known {
		n := (w.at + i) % len(w.known)
		if k := &w.known[n]; k.seq != seq && w.of.same(&k.identity, &w.bound) {
			return n
		}
	}
	return -1
}

// maxKnown is the number of identities in memory above which begin drops some.
const maxKnown = 128

// begin starts a transaction. If there are more than maxKnown identities, it drops the identities
// of elements that are gone, mostly ended processes. An element that appears again then gets a new
// identity.
func (w *elementWriter[T]) begin() listMark {
	if len(w.known) > maxKnown {
		newest := int64(0)
		for i := range w.known {
			newest = max(newest, w.known[i].seq)
		}
		w.known = slices.DeleteFunc(w.known, func(k knownElement[T]) bool { return k.seq < newest })
	}
	return listMark{len(w.known), w.lastID}
}

// rollback returns to a mark: the database does not have the later identities.
func (w *elementWriter[T]) rollback(m listMark) {
	w.known, w.lastID = w.known[:m.known], m.lastID
	for i := range w.known {
		w.known[i].seq = 0
	}
}
