package spool

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// deviceReaders restores the devices of snapshots, which are read in their order.
type deviceReaders struct {
	keyframes []int64 // that follow
	lists     []listReader
}

// deviceReader restores the devices of one list. The last reading of a device is valid until
// there is another one.
type deviceReader[T any] struct {
	of      *listTable[T]
	bound   T // values point into it
	values  []column
	rows    driver.Rows
	row     []driver.Value
	ahead   bool // row holds a reading of a later snapshot
	done    bool
	known   map[int64]*T
	slot    map[int64]int64
	present []int64 // ids in the order of the snapshot
}

// listReader is a deviceReader of any type.
type listReader interface {
	read(s *rt.Snapshot, keyframe bool) error
	close()
}

func openDevices(ctx context.Context, c *conn, lists []storedList, from keyframe, to int64) (*deviceReaders, error) {
	d := &deviceReaders{}
	var err error
	d.keyframes, err = c.queryInts("SELECT seq FROM keyframe WHERE seq BETWEEN ? AND ? ORDER BY seq", from.seq, to)
	for i := 0; err == nil && i < len(lists); i++ {
		var l listReader
		l, err = lists[i].reader(ctx, c, &from)
		if err == nil {
			d.lists = append(d.lists, l)
		}
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *deviceReaders) close() {
	for _, r := range d.lists {
		r.close()
	}
}

// read sets the devices of s, which follows the last snapshot that was read.
func (d *deviceReaders) read(s *rt.Snapshot) (err error) {
	keyframe := len(d.keyframes) > 0 && s.Seq == d.keyframes[0]
	if keyframe {
		d.keyframes = d.keyframes[1:]
	}
	for i := 0; err == nil && i < len(d.lists); i++ {
		err = d.lists[i].read(s, keyframe)
	}
	return err
}

// reader reads the identities and starts to read the readings that follow a row.
func (t *listTable[T]) reader(ctx context.Context, c *conn, after *keyframe) (listReader, error) {
	d := &deviceReader[T]{of: t, known: map[int64]*T{}, slot: map[int64]int64{}}
	id, values := t.columns(&d.bound)
	d.values = values
	err := c.eachUpTo(c.maxIdentities(), "SELECT id, slot, "+names(id)+" FROM "+t.name, nil, func(row []driver.Value) error {
		number, ok := row[0].(int64)
		slot, ok1 := row[1].(int64)
		if !ok || !ok1 {
			return fmt.Errorf("a device of table %s has no number", t.name)
		}
		device := new(T)
		d.known[number], d.slot[number] = device, slot
		id, _ := t.columns(device)
		return scan(row[2:], id)
	})
	if err != nil {
		return nil, err
	}
	if len(d.known) == 0 {
		d.done = true
		return d, nil
	}
	columns := "r." + strings.ReplaceAll(names(values), ", ", ", r.")
	d.rows, err = c.rows(ctx, "SELECT seq, r."+t.from.column+", gone, "+columns+" FROM "+readingTables[t.from.table].name+
		" AS r CROSS JOIN "+t.name+" AS d ON d.id = r."+t.from.column+" WHERE r.rowid > ? ORDER BY r.rowid", after.rows[t.from.table])
	if err != nil {
		return nil, err
	}
	d.row = make([]driver.Value, len(d.rows.Columns()))
	return d, nil
}

func (d *deviceReader[T]) close() {
	if d.rows != nil {
		d.rows.Close() // of a SELECT: nothing can be lost
	}
}

// read sets the devices of snapshot s.
func (d *deviceReader[T]) read(s *rt.Snapshot, keyframe bool) error {
	if keyframe {
		d.present = d.present[:0]
	}
	for !d.done {
		if !d.ahead {
			err := d.rows.Next(d.row)
			if err == io.EOF {
				d.done = true
				break
			}
			if err != nil {
				return err
			}
			d.ahead = true
		}
		if at, ok := d.row[0].(int64); !ok || at < s.Seq {
			return errors.New("a device has a reading without a snapshot")
		} else if at > s.Seq {
			break
		}
		if err := d.apply(); err != nil {
			return fmt.Errorf("snapshot %d: %w", s.Seq, err)
		}
		d.ahead = false
	}
	list := d.of.list(s)
	*list = (*list)[:0]
	for _, id := range d.present {
		*list = append(*list, *d.known[id])
	}
	return nil
}

// apply applies the reading in d.row.
func (d *deviceReader[T]) apply() error {
	id, _ := d.row[1].(int64)
	device := d.known[id]
	if device == nil {
		return fmt.Errorf("a reading of device %v, which is not in its table", d.row[1])
	}
	order := func(a, b int64) int { return cmp.Or(cmp.Compare(d.slot[a], d.slot[b]), cmp.Compare(a, b)) }
	at, found := slices.BinarySearchFunc(d.present, id, order)
	switch {
	case d.row[2] != nil && found:
		d.present = slices.Delete(d.present, at, at+1)
		return nil
	case d.row[2] == nil && !found:
		d.present = slices.Insert(d.present, at, id)
	}
	d.bound = *device
	clearFields(d.values)
	err := scan(d.row[3:], d.values)
	if err == nil {
		*device = d.bound
	}
	return err
}
