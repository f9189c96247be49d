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

// deviceReaders puts the devices back into snapshots that are read in their order.
type deviceReaders struct {
	keyframes driver.Rows
	key       []driver.Value
	nextKey   int64

	net   deviceReader[rt.NetReading]
	disk  deviceReader[rt.DiskReading]
	mount deviceReader[rt.MountReading]
	gpu   deviceReader[rt.GPUReading]
	kindReaders
}

// deviceReader carries the last reading of each device of one kind forward to the
// snapshots that have none of it.
type deviceReader[T any] struct {
	rows    driver.Rows
	row     []driver.Value
	ahead   bool // row holds a reading that is not used yet
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
		err = d.net.open(c, "net", pair, &from, netIDColumns, scanNet)
	}
	if err == nil {
		err = d.disk.open(c, "disk", pair, &from, diskIDColumns, scanDisk)
	}
	if err == nil {
		err = d.mount.open(c, "mount", pair, &from, mountIDColumns, scanMount)
	}
	if err == nil {
		err = d.gpu.open(c, "gpu", ofGPU, &from, gpuIDColumns, scanGPU)
	}
	if err == nil {
		err = d.openKinds(c, &from)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// Tables of readings.
const (
	readingsOfDevices = iota
	readingsOfGPUs
	readingsOfCounters
	readingsOfSteps
	readingsOfProcesses
	numReadings
)

// readingTables names them and the column of keyframe that tells their last row.
var readingTables = [numReadings]struct{ name, keyframe string }{
	{"device_reading", "device_row"}, {"gpu_reading", "gpu_row"}, {"counter_value", "counter_row"},
	{"step_value", "step_row"}, {"process_value", "process_row"},
}

// readings is a table of readings, the column that names the device, and the values.
type readings struct {
	table          int
	device, values string
}

var (
	pair  = readings{readingsOfDevices, "device", "value1, value2"}
	ofGPU = readings{readingsOfGPUs, "gpu", "utilization_pct, vram_used_bytes, temperature_celsius, power_watts, frequency_mhz"}
)

func (d *deviceReaders) close() {
	for _, rows := range append(d.kindRows(), d.keyframes, d.net.rows, d.disk.rows, d.mount.rows, d.gpu.rows) {
		if rows != nil {
			rows.Close() // of a SELECT: nothing can be lost
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

// read sets the devices of s, the snapshot after the one before.
func (d *deviceReaders) read(s *rt.Snapshot) (err error) {
	keyframe := s.Seq == d.nextKey
	if keyframe {
		if err := d.advanceKey(); err != nil {
			return err
		}
	}
	if s.Nets, err = d.net.read(s.Seq, keyframe, s.Nets); err != nil {
		return err
	}
	if s.Disks, err = d.disk.read(s.Seq, keyframe, s.Disks); err != nil {
		return err
	}
	if s.Mounts, err = d.mount.read(s.Seq, keyframe, s.Mounts); err != nil {
		return err
	}
	if s.GPUs, err = d.gpu.read(s.Seq, keyframe, s.GPUs); err != nil {
		return err
	}
	return d.readKinds(s, keyframe)
}

// open reads the identities and starts to read the readings after a row.
func (d *deviceReader[T]) open(c *conn, table string, from readings, after *keyframe, identity func(*T) []column,
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
	values := "r." + strings.ReplaceAll(from.values, ", ", ", r.")
	d.rows, err = c.rows(background, "SELECT seq, r."+from.device+", gone, "+values+" FROM "+readingTables[from.table].name+
		" AS r CROSS JOIN "+table+" AS d ON d.id = r."+from.device+" WHERE r.rowid > ? ORDER BY r.rowid", after.rows[from.table])
	if err == nil {
		d.row = make([]driver.Value, len(d.rows.Columns()))
	}
	return err
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

// apply takes the reading in d.row.
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

func netIDColumns(n *rt.NetReading) []column {
	return []column{{"name", &n.Name}, {"mac", &n.MAC}, {"driver", &n.Driver}, {"operstate", &n.OperState},
		{"speed_mbps", &n.SpeedMbps}, {"mtu_bytes", &n.MTU}}
}

func scanNet(row []driver.Value, n *rt.NetReading) error {
	return scanOpts(row, &n.RxBytes, &n.TxBytes)
}

func diskIDColumns(d *rt.DiskReading) []column {
	return []column{{"name", &d.Name}, {"leaf", &d.Leaf}, {"model", &d.Model}, {"vendor", &d.Vendor},
		{"serial", &d.Serial}, {"type", &d.Type}, {"capacity_bytes", &d.Capacity}}
}

func scanDisk(row []driver.Value, d *rt.DiskReading) error {
	return scanOpts(row, &d.ReadBytes, &d.WriteBytes)
}

func mountIDColumns(m *rt.MountReading) []column {
	return []column{{"disk", &m.Disk}, {"mount_point", &m.MountPoint}, {"fs_type", &m.FSType}, {"total_bytes", &m.Total}}
}

func scanMount(row []driver.Value, m *rt.MountReading) error {
	var available, used rt.Opt[uint64]
	err := scanOpts(row, &available, &used)
	m.Available, m.Used = available.Or(0), used.Or(0)
	return err
}

func gpuIDColumns(g *rt.GPUReading) []column {
	return []column{{"uuid", &g.UUID}, {"name", &g.Name}, {"type", &g.Type}, {"host_identifier", &g.Host},
		{"vram_total_bytes", &g.VRAMTotal}, {"cores", &g.Cores}, {"detail", &g.Detail}, {"in_job", &g.InJob}}
}

func scanGPU(row []driver.Value, g *rt.GPUReading) error {
	g.Utilization.Clear()
	g.Power.Clear()
	if !decode(row[0], &g.Utilization) || !decode(row[3], &g.Power) {
		return errors.New("a GPU's reading does not fit")
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
			return fmt.Errorf("%T where a count was expected", v)
		}
	}
	return nil
}
