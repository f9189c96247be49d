package spool

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/codec"
)

// headColumns are those before deltaColumns in a row of each table.
var headColumns = func() (head [numTables][]string) {
	for i := range head {
		head[i] = []string{"seq"}
	}
	head[inMoving] = []string{rowSeq: "seq", rowReason: "reason", rowPhase: "job_phase", rowCores: "core_ticks"}
	return head
}()

const rowSeq, rowReason, rowPhase, rowCores = 0, 1, 2, 3

// scalarSQL selects these columns and those in of from a table, for the snapshots between two numbers.
func scalarSQL(table int, of []int, cores bool) string {
	columns := slices.Concat(headColumns[table], columnNames(of))
	if table == inMoving && !cores {
		columns[rowCores] = "NULL"
	}
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + deltaTables[table] + " WHERE seq BETWEEN ? AND ? ORDER BY seq"
}

// Scalars iterates over the snapshots with the numbers from to to, without CPUs and devices. If to
// <= 0, it iterates to the newest snapshot at the time of the call. The snapshot is reused: it is
// valid until the next iteration, but a plain copy can be kept, because it has no references. The
// iteration ends after an error.
func (r *Reader) Scalars(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return r.iterate(ctx, from, to, selection{columns: &tableColumns})
}

// Rates is Scalars with only the figures that rt.DeriveScalars and rt.DeriveProcess use; the others
// are absent. It takes two thirds of the time of Scalars. A CSV row needs no other figures. If the
// node has virtual interfaces, Rates has the list of interfaces, because a CSV row includes them.
func (r *Reader) Rates(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		of := selection{columns: rateColumns()}
		hasVirtual, err := r.hasVirtualNets()
		if err != nil {
			yield(nil, describe(r.path, err))
			return
		}
		if hasVirtual {
			of.lists = []storedList{netList}
		}
		r.iterate(ctx, from, to, of)(yield)
	}
}

// hasVirtualNets reports whether the run has seen an interface that is not in the sums over rt.Wire.
func (r *Reader) hasVirtualNets() (bool, error) {
	var nets []rt.NetReading
	err := r.db.identities("net", []string{"name", "driver", "mac"}, func(row []driver.Value) error {
		var n rt.NetReading
		err := scan(row, []column{{"name", &n.Name}, {"driver", &n.Driver}, {"mac", &n.MAC}})
		nets = append(nets, n)
		return err
	})
	if err != nil {
		return false, err
	}
	wire := rt.NewWire(nets)
	for i := range nets {
		if !wire.Has(i) {
			return true, nil
		}
	}
	return false, nil
}

// Usage is Scalars with only the figures of CPU time, memory and OOM kills, and with the GPUs and
// their processes. For a run of an hour with steps and processes, it takes half of the time of Snapshots.
func (r *Reader) Usage(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return r.iterate(ctx, from, to, selection{columns: usageColumns(), lists: []storedList{gpuList, gpuProcessList}})
}

// Snapshots is Scalars with CPUs and devices, in slices that are also reused. A CPU has its busy
// ticks in User and all other ticks in Idle. Times are in whole microseconds.
func (r *Reader) Snapshots(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return r.iterate(ctx, from, to, everything)
}

// selection is what an iterator reads of each snapshot.
type selection struct {
	columns *[numTables][]int // of each table
	cores   bool
	lists   []storedList
}

var everything = selection{&tableColumns, true, storedLists[:]}

func (r *Reader) iterate(ctx context.Context, from, to int64, of selection) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		it, err := r.start(ctx, max(from, 1), to, of)
		if err != nil {
			yield(nil, err)
			return
		}
		defer it.close()
		for {
			if it.read%256 == 0 && ctx.Err() != nil {
				yield(nil, fmt.Errorf("read %s: %w", r.path, ctx.Err()))
				return
			}
			err := it.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, r.broken(err))
				return
			}
			if it.snapshot.Seq >= from && !yield(&it.snapshot, nil) {
				return
			}
		}
	}
}

// iterator iterates over the rows that follow a keyframe. It reads in one transaction, because a
// tracker may thin rows at the same time.
type iterator struct {
	held     driver.Rows
	of       selection
	tables   [numTables]tableRows
	read     int
	total    sums
	vector   vector
	cores    []codec.Core
	devices  *deviceReaders // nil if no list is read
	snapshot rt.Snapshot
}

// tableRows iterates over the rows of one table. Reading costs one cgo call per column; therefore
// the tables with few rows are not joined to the first one.
type tableRows struct {
	rows driver.Rows
	row  []driver.Value
	seq  int64 // of the row that is read next; 0 at the end
}

func (t *tableRows) next() error {
	before := t.seq
	t.seq = 0
	err := t.rows.Next(t.row)
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	seq, ok := t.row[rowSeq].(int64)
	if !ok || seq <= before {
		return fmt.Errorf("a snapshot has the number %v, after %d", t.row[rowSeq], before)
	}
	t.seq = seq
	return nil
}

func (r *Reader) start(ctx context.Context, from, to int64, of selection) (_ *iterator, err error) {
	it := &iterator{of: of}
	defer func() {
		if err != nil {
			it.close()
		}
	}()
	it.held, err = r.db.hold()
	if err != nil {
		return nil, describe(r.path, err)
	}
	newest, err := r.LastSeq()
	if err != nil {
		return nil, err
	}
	if to <= 0 || to > newest {
		to = newest
	}
	key, err := r.seek(it, from)
	if err != nil {
		return nil, err
	}
	err = it.open(ctx, r.db, key.seq, to)
	if err == nil && len(of.lists) > 0 {
		var keyframes []int64
		keyframes, err = r.db.queryInts("SELECT seq FROM keyframe WHERE seq BETWEEN ? AND ? ORDER BY seq", key.seq, to)
		if err == nil {
			it.devices, err = openDevices(ctx, r.db, keyframes, of.lists, key)
		}
	}
	if err != nil {
		return nil, describe(r.path, err)
	}
	return it, nil
}

func (it *iterator) open(ctx context.Context, c *conn, from, to int64) (err error) {
	for i := range it.tables {
		t := &it.tables[i]
		t.rows, err = c.rows(ctx, scalarSQL(i, it.of.columns[i], it.of.cores), from, to)
		if err != nil {
			return err
		}
		t.row = make([]driver.Value, len(t.rows.Columns()))
		err = t.next()
		if err != nil {
			return err
		}
	}
	return nil
}

// keyframe is a position at which reading can start.
type keyframe struct {
	seq  int64
	rows [numReadings]int64 // of the tables of readings, before seq
}

// seek reads the last keyframe at or before from and sets the sums.
func (r *Reader) seek(it *iterator, from int64) (keyframe, error) {
	row, err := r.db.query("SELECT "+keyframeColumns+" FROM keyframe WHERE seq <= ? ORDER BY seq DESC LIMIT 1", from)
	if err != nil {
		return keyframe{}, describe(r.path, err)
	}
	if row == nil {
		return keyframe{seq: 1}, nil
	}
	var k keyframe
	if err := k.scan(row, &it.total); err != nil {
		return k, damaged(r.path, err)
	}
	return k, nil
}

// keyframeHead is the number of columns of a keyframe before the sums.
const keyframeHead = 1 + numReadings

// keyframeNames lists the columns of keyframe.
var keyframeNames = func() []string {
	columns := []string{"seq"}
	for _, t := range readingTables {
		columns = append(columns, t.keyframe)
	}
	for _, c := range deltaColumns[:numSums] {
		columns = append(columns, c.name)
	}
	return columns
}()

// keyframeColumns are keyframeNames as SQL.
var keyframeColumns = strings.Join(keyframeNames, ", ")

// scan takes a row of keyframeColumns.
func (k *keyframe) scan(row []driver.Value, total *sums) error {
	columns := []column{{"seq", &k.seq}}
	for i, t := range readingTables {
		columns = append(columns, column{t.keyframe, &k.rows[i]})
	}
	if err := scan(row[:keyframeHead], columns); err != nil {
		return err
	}
	for i := range numSums {
		if err := total.addColumn(i, row[keyframeHead+i]); err != nil {
			return fmt.Errorf("keyframe %d: %w", k.seq, err)
		}
	}
	return nil
}

func (it *iterator) close() {
	if it.held != nil {
		it.held.Close()
	}
	for i := range it.tables {
		if rows := it.tables[i].rows; rows != nil {
			rows.Close() // of a SELECT: nothing can be lost
		}
	}
	if it.devices != nil {
		it.devices.close()
	}
}

// next reads the rows of one snapshot into it.
func (it *iterator) next() error {
	row := it.tables[inMoving].row
	s := &it.snapshot
	s.Seq = it.tables[inMoving].seq
	if s.Seq == 0 {
		return io.EOF
	}
	it.read++
	reason, ok1 := row[rowReason].(int64)
	phase, ok2 := row[rowPhase].(int64)
	if !ok1 || !ok2 {
		return fmt.Errorf("snapshot %d: its reason or phase is missing", s.Seq)
	}
	s.Reason = rt.Reason(reason)
	s.Job, s.Tree = rt.JobReading{Phase: rt.JobPhase(phase)}, rt.TreeReading{}
	if it.of.cores {
		if err := it.readCores(row[rowCores]); err != nil {
			return fmt.Errorf("snapshot %d: %w", s.Seq, err)
		}
	}
	if err := it.readTables(s.Seq); err != nil {
		return fmt.Errorf("snapshot %d: %w", s.Seq, err)
	}
	it.vector.store(s)
	if it.devices == nil {
		return nil
	}
	return it.devices.read(s)
}

// readTables adds the rows of snapshot seq. If a table has no row, none of its figures
// changed.
func (it *iterator) readTables(seq int64) error {
	for i := range it.tables {
		t := &it.tables[i]
		if t.seq == 0 || t.seq > seq {
			continue
		}
		if t.seq < seq {
			return fmt.Errorf("table %s has a row %d without a snapshot", deltaTables[i], t.seq)
		}
		if err := it.total.add(it.of.columns[i], t.row[len(headColumns[i]):], &it.vector); err != nil {
			return err
		}
		if err := t.next(); err != nil {
			return err
		}
	}
	if !it.vector.ok[colBoot] || !it.vector.ok[colClock] {
		return fmt.Errorf("it has no time")
	}
	return nil
}

func (it *iterator) readCores(blob driver.Value) (err error) {
	switch row := blob.(type) {
	case nil:
		it.cores = it.cores[:0]
	case []byte:
		it.cores, err = codec.Decode(it.cores, row)
	default:
		err = codec.ErrCores
	}
	it.snapshot.CPUs = codec.Store(it.snapshot.CPUs, it.cores)
	return err
}
