package spool

import (
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"strings"
)

var errNoRoom = errors.New("no room between the readings")

// logThinner rewrites the readings of a stretch for the snapshots that stay. The first column
// of each table of readings is the snapshot, the second the device, the last says whether it
// is gone; there is a row if a reading differs from the previous one. The last reading of
// each device at the dropped snapshots moves to the next snapshot that stays. That holds for a
// device that was gone by then, too: it is gone one snapshot later.
type logThinner struct {
	table     string
	kept      map[int64]bool // whether a snapshot of the stretch stays
	keyframes []int64        // inside the stretch

	columns []string
	order   []*logDevice
	devices map[driver.Value]*logDevice
	out     [][]driver.Value
}

// logDevice is the last reading of a device.
type logDevice struct {
	id      driver.Value
	row     []driver.Value // its last reading; nil after a reading with gone = 1 was written
	present bool
	wrote   []driver.Value // its last reading that was written; nil if there is none or it is gone
}

// thin rewrites the rows of a table from rowid from up to the one before to.
func (t *logThinner) thin(c *conn, from, to int64) error {
	old, err := t.read(c, from, to)
	if err != nil || len(old) == 0 {
		return err
	}
	t.devices = map[driver.Value]*logDevice{}
	at := 0
	for _, seq := range slices.Sorted(maps.Keys(t.kept)) {
		if slices.Contains(t.keyframes, seq) { // it lists all devices
			for _, d := range t.order {
				d.present = false
			}
		}
		for ; at < len(old); at++ {
			if n, _ := old[at][0].(int64); n > seq {
				break
			}
			t.apply(old[at])
		}
		if t.kept[seq] {
			t.emit(seq)
		}
	}
	return t.replace(c, from, to)
}

func (t *logThinner) read(c *conn, from, to int64) (rows [][]driver.Value, err error) {
	list, err := c.rows(background, "SELECT * FROM "+t.table+" LIMIT 0")
	if err != nil {
		return nil, err
	}
	t.columns = list.Columns()
	if err := list.Close(); err != nil {
		return nil, err
	}
	err = c.each("SELECT * FROM "+t.table+" WHERE rowid >= ? AND rowid < ? ORDER BY rowid", []driver.Value{from, to}, func(row []driver.Value) error {
		rows = append(rows, slices.Clone(row))
		return nil
	})
	return rows, err
}

func (t *logThinner) apply(row []driver.Value) {
	d := t.devices[row[1]]
	if d == nil {
		d = &logDevice{id: row[1]}
		t.devices[row[1]] = d
		t.order = append(t.order, d)
	}
	d.present = row[len(row)-1] == nil
	if d.present {
		d.row = row
	}
}

// emit writes the readings that have changed since the last snapshot that stays.
func (t *logThinner) emit(seq int64) {
	for _, d := range t.order {
		same := d.row != nil && d.wrote != nil && sameReading(d.row, d.wrote)
		switch {
		case d.row != nil && !same:
			d.wrote = slices.Clone(d.row)
			d.wrote[0] = seq
			t.out = append(t.out, d.wrote)
		case !d.present && d.wrote != nil:
			row := make([]driver.Value, len(d.wrote))
			row[0], row[1], row[len(row)-1] = seq, d.id, int64(1)
			t.out = append(t.out, row)
			d.wrote, d.row = nil, nil
		}
	}
}

// sameReading compares all but the snapshot's number.
func sameReading(a, b []driver.Value) bool { return slices.Equal(a[1:], b[1:]) }

// replace replaces the old rows by the new ones. If there are too few row ids for them, they
// cannot be in order with the rows that follow, and the error is errNoRoom.
func (t *logThinner) replace(c *conn, from, to int64) error {
	if int64(len(t.out)) > to-from {
		return errNoRoom
	}
	if _, err := c.change("DELETE FROM "+t.table+" WHERE rowid >= ? AND rowid < ?", from, to); err != nil {
		return err
	}
	insert, err := c.prepare("INSERT INTO " + t.table + " (rowid, " + strings.Join(t.columns, ", ") + ") VALUES (" + placeholders(len(t.columns)+1) + ")")
	if err != nil {
		return err
	}
	defer c.finalize(insert)
	for i, row := range t.out {
		insert.args[0].Value = from + int64(i)
		insert.bindFrom(1, row...)
		if err := insert.run(); err != nil {
			return err
		}
	}
	return nil
}
