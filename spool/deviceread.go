package spool

import (
	"cmp"
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
	keyframes driver.Rows
	key       []driver.Value
	nextKey   int64

	gpu   deviceReader[rt.GPUReading]
	lists [len(storedLists)]listReader
}

// deviceReader restores the devices of one list. The last reading of a device is valid until
// there is another one.
type deviceReader[T any] struct {
	rows    driver.Rows
	row     []driver.Value
	ahead   bool // row holds a reading of a later snapshot
	done    bool
	known   map[int64]*T
	slot    map[int64]int64
	present []int64 // ids in the order of the snapshot
	scan    func(values []driver.Value, d *T) error
}

func openDevices(c *conn, from keyframe, to int64) (*deviceReaders, error) {
	d := &deviceReaders{key: make([]driver.Value, 1)}
	var err error
	d.keyframes, err = c.rows(background, "SELECT seq FROM keyframe WHERE seq BETWEEN ? AND ? ORDER BY seq", from.seq, to)
	if err == nil {
		err = d.advanceKey()
	}
	if err == nil {
		err = d.gpu.open(c, "gpu", readings{readingsOfGPUs, "gpu"}, gpuValues, &from, gpuIDColumns, scanGPU)
	}
	for i := 0; err == nil && i < len(storedLists); i++ {
		d.lists[i], err = storedLists[i].reader(c, &from)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// gpuValues are the columns of gpu_reading that scanGPU takes.
const gpuValues = "utilization_pct, vram_used_bytes, temperature_celsius, power_watts, frequency_mhz"

func (d *deviceReaders) close() {
	if d.keyframes != nil {
		d.keyframes.Close() // of a SELECT: nothing can be lost
	}
	d.gpu.close()
	for _, r := range d.lists {
		if r != nil {
			r.close()
		}
	}
}

func (d *deviceReaders) advanceKey() error {
	d.nextKey = 0
	err := d.keyframes.Next(d.key)
	if err == io.EOF {
		return nil
	}
	if err == nil {
		d.nextKey, _ = d.key[0].(int64)
	}
	return err
}

// read sets the devices of s, which follows the last snapshot that was read.
func (d *deviceReaders) read(s *rt.Snapshot) (err error) {
	keyframe := s.Seq == d.nextKey
	if keyframe {
		if err := d.advanceKey(); err != nil {
			return err
		}
	}
	s.GPUs, err = d.gpu.read(s.Seq, keyframe, s.GPUs)
	for i := 0; err == nil && i < len(d.lists); i++ {
		err = d.lists[i].readAll(s, keyframe)
	}
	return err
}

// open reads the identities and starts to read the readings that follow a row.
func (d *deviceReader[T]) open(c *conn, table string, from readings, columns string, after *keyframe, identity func(*T) []column,
	scanValues func([]driver.Value, *T) error) error {
	d.known, d.slot, d.scan = map[int64]*T{}, map[int64]int64{}, scanValues
	var zero T
	err := c.each("SELECT id, slot, "+names(identity(&zero))+" FROM "+table, nil, func(row []driver.Value) error {
		id, ok := row[0].(int64)
		slot, ok1 := row[1].(int64)
		if !ok || !ok1 {
			return fmt.Errorf("a device of table %s has no number", table)
		}
		device := new(T)
		d.known[id], d.slot[id] = device, slot
		return scan(row[2:], identity(device))
	})
	if err != nil {
		return err
	}
	if len(d.known) == 0 {
		d.done = true
		return nil
	}
	values := "r." + strings.ReplaceAll(columns, ", ", ", r.")
	d.rows, err = c.rows(background, "SELECT seq, r."+from.column+", gone, "+values+" FROM "+readingTables[from.table].name+
		" AS r CROSS JOIN "+table+" AS d ON d.id = r."+from.column+" WHERE r.rowid > ? ORDER BY r.rowid", after.rows[from.table])
	if err == nil {
		d.row = make([]driver.Value, len(d.rows.Columns()))
	}
	return err
}

func (d *deviceReader[T]) close() {
	if d.rows != nil {
		d.rows.Close() // of a SELECT: nothing can be lost
	}
}

// read appends the devices of snapshot seq to dst[:0].
func (d *deviceReader[T]) read(seq int64, keyframe bool, dst []T) ([]T, error) {
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
				return dst, err
			}
			d.ahead = true
		}
		if at, ok := d.row[0].(int64); !ok || at < seq {
			return dst, errors.New("a device has a reading without a snapshot")
		} else if at > seq {
			break
		}
		if err := d.apply(); err != nil {
			return dst, fmt.Errorf("snapshot %d: %w", seq, err)
		}
		d.ahead = false
	}
	dst = dst[:0]
	for _, id := range d.present {
		dst = append(dst, *d.known[id])
	}
	return dst, nil
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
	return d.scan(d.row[3:], device)
}

func gpuIDColumns(g *rt.GPUReading) []column {
	return []column{{"uuid", &g.UUID}, {"name", &g.Name}, {"type", &g.Type}, {"host", &g.Host},
		{"vram_total_bytes", &g.VRAMTotal}, {"cores", &g.Cores}, {"detail", &g.Detail}, {"in_job", &g.InJob}}
}

func scanGPU(row []driver.Value, g *rt.GPUReading) error {
	g.Utilization.Clear()
	g.Power.Clear()
	if !decode(row[0], &g.Utilization) || !decode(row[3], &g.Power) {
		return errors.New("the reading of a GPU has a value of a wrong type")
	}
	return errors.Join(scanOpts(row[1:], &g.VRAMUsed, &g.Temperature), scanOpts(row[4:], &g.Frequency))
}

func scanOpts(row []driver.Value, fields ...*rt.Opt[uint64]) error {
	for i, p := range fields {
		switch v := row[i].(type) {
		case nil:
			p.Clear()
		case int64:
			p.Set(uint64(v))
		default:
			return fmt.Errorf("a value is a %T, not a count", v)
		}
	}
	return nil
}
