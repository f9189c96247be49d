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

// deviceSource is where the devices are stored: a spool file or a record in memory.
type deviceSource interface {
	// identities calls f with these columns of the rows of a table of identities.
	identities(table string, columns []string, f func(row []driver.Value) error) error
	// readings returns rows of a table of readings, in their order.
	readings(ctx context.Context, of *readingsOf) (driver.Rows, error)
}

// readingsOf selects the readings of the devices of a list.
type readingsOf struct {
	name       string // of the table
	device     string // its column with the number of the device
	identities string // the table of the list
	values     []string
	after      int64            // the row before the first one
	has        func(int64) bool // whether the list has the device
}

// columns are those of the rows.
func (r *readingsOf) columns() []string {
	return append([]string{"seq", r.device, "gone"}, r.values...)
}

// identities implements deviceSource.
func (c *conn) identities(table string, columns []string, f func(row []driver.Value) error) error {
	return c.eachUpTo(c.maxIdentities(), "SELECT "+sqlNames(columns)+" FROM "+table, nil, f)
}

// readings implements deviceSource.
func (c *conn) readings(ctx context.Context, of *readingsOf) (driver.Rows, error) {
	columns := `r."` + strings.Join(of.columns(), `", r."`) + `"`
	return c.rows(ctx, "SELECT "+columns+" FROM "+of.name+" AS r CROSS JOIN "+of.identities+" AS d ON d.id = r."+of.device+
		" WHERE r.rowid > ? ORDER BY r.rowid", of.after)
}

func openDevices(ctx context.Context, c deviceSource, keyframes []int64, lists []storedList, from keyframe) (*deviceReaders, error) {
	d := &deviceReaders{keyframes: keyframes}
	var err error
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
func (t *listTable[T]) reader(ctx context.Context, c deviceSource, after *keyframe) (listReader, error) {
	d := &deviceReader[T]{of: t, known: map[int64]*T{}, slot: map[int64]int64{}}
	id, values := t.columns(&d.bound)
	d.values = values
	err := c.identities(t.name, append([]string{"id", "slot"}, columnNamesOf(id)...), func(row []driver.Value) error {
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
	d.rows, err = c.readings(ctx, &readingsOf{
		name: readingTables[t.from.table].name, device: t.from.column, identities: t.name, values: columnNamesOf(values),
		after: after.rows[t.from.table], has: func(id int64) bool { return d.known[id] != nil },
	})
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
