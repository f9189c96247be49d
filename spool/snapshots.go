package spool

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/resource-tracker/rt"
)

// Columns before those of deltaColumns in the rows that a Reader goes through:
// after the phase, for each table whether it has a row.
const (
	rowSeq, rowReason, rowPhase, rowTables = 0, 1, 2, 3

	rowDeltas = rowTables + numTables
	rowCores  = rowDeltas + numCols
)

// scalarSQL selects those columns, and core_ticks with them, of the snapshots
// between two numbers. In version 1 all tables are one.
func scalarSQL(version int, cores bool) string {
	columns := []string{"d0.seq", "reason", "job_phase"}
	from := " FROM " + deltaTables[inMoving] + " AS d0"
	for i, table := range deltaTables {
		if version < 2 {
			columns = append(columns, "1")
			continue
		}
		columns = append(columns, fmt.Sprintf("d%d.seq", i))
		if i != inMoving {
			from += fmt.Sprintf(" LEFT JOIN %s AS d%d ON d%d.seq = d0.seq", table, i, i)
		}
	}
	for i, c := range deltaColumns {
		if version < 2 && newIn2(i) {
			columns = append(columns, "NULL")
		} else {
			columns = append(columns, c.name)
		}
	}
	if cores {
		columns = append(columns, "core_ticks")
	}
	return "SELECT " + strings.Join(columns, ", ") + from + " WHERE d0.seq BETWEEN ? AND ? ORDER BY d0.seq"
}

// Scalars goes through the snapshots from number from to number to (to <= 0: to
// the newest there is now), without CPUs and devices. The snapshot is reused: it
// holds until the next one, and a consumer that keeps it copies it (it has no
// references). After an error there is no further snapshot.
func (r *Reader) Scalars(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return r.iterate(ctx, from, to, false)
}

// Snapshots is Scalars with CPUs and devices. Their slices are reused as well. Of
// a CPU it gives busy ticks as User and the others as Idle; times are in whole
// microseconds.
func (r *Reader) Snapshots(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return r.iterate(ctx, from, to, true)
}

func (r *Reader) iterate(ctx context.Context, from, to int64, full bool) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		it, err := r.start(max(from, 1), to, full)
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

// iterator goes through rows from a keyframe on. Rows are never changed, and all
// of its statements stop at the same number, so it needs no transaction.
type iterator struct {
	rows     driver.Rows
	row      []driver.Value
	read     int
	total    sums
	vector   vector
	cores    []core
	devices  *deviceReaders // nil for scalars alone
	snapshot rt.Snapshot
}

func (r *Reader) start(from, to int64, full bool) (*iterator, error) {
	newest, err := r.LastSeq()
	if err != nil {
		return nil, err
	}
	if to <= 0 || to > newest {
		to = newest
	}
	it := &iterator{}
	key, err := r.seek(it, from)
	if err != nil {
		return nil, err
	}
	it.rows, err = r.db.rows(background, scalarSQL(r.version, full), key.seq, to)
	if err != nil {
		return nil, describe(r.path, err)
	}
	it.row = make([]driver.Value, len(it.rows.Columns()))
	if full {
		if it.devices, err = openDevices(r.db, r.version, key, to); err != nil {
			it.close()
			return nil, describe(r.path, err)
		}
	}
	return it, nil
}

// keyframe is where reading may start.
type keyframe struct {
	seq  int64
	rows [numReadings]int64 // of the tables of readings, before seq
}

// seek finds the last keyframe at or before from, and sets the sums it holds.
func (r *Reader) seek(it *iterator, from int64) (keyframe, error) {
	row, err := r.db.query("SELECT "+keyframeColumns(r.version)+" FROM keyframe WHERE seq <= ? ORDER BY seq DESC LIMIT 1", from)
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

// keyframeHead is how many columns of a keyframe come before the sums.
const keyframeHead = 1 + numReadings

// keyframeColumns lists its columns; those that a version has not are NULL.
func keyframeColumns(version int) string {
	columns := []string{"seq"}
	for i, t := range readingTables {
		columns = append(columns, t.keyframe)
		if version < 2 && i >= readingsVersion2 {
			columns[1+i] = "NULL"
		}
	}
	for i, c := range deltaColumns[:numSums] {
		if version < 2 && newIn2(i) {
			columns = append(columns, "NULL")
		} else {
			columns = append(columns, c.name)
		}
	}
	return strings.Join(columns, ", ")
}

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
	it.rows.Close() // of a SELECT: nothing can be lost
	if it.devices != nil {
		it.devices.close()
	}
}

// next reads one row into the snapshot.
func (it *iterator) next() error {
	if err := it.rows.Next(it.row); err != nil {
		return err
	}
	it.read++
	s := &it.snapshot
	seq, ok := it.row[rowSeq].(int64)
	reason, ok1 := it.row[rowReason].(int64)
	phase, ok2 := it.row[rowPhase].(int64)
	if !ok || !ok1 || !ok2 {
		return fmt.Errorf("snapshot %v: number, reason or phase is missing", it.row[rowSeq])
	}
	s.Seq, s.Reason = seq, rt.Reason(reason)
	s.Job, s.Tree = rt.JobReading{Phase: rt.JobPhase(phase)}, rt.TreeReading{}
	var has [numTables]bool
	for i := range has {
		has[i] = it.row[rowTables+i] != nil
	}
	if err := it.total.add(it.row[rowDeltas:], &has, &it.vector); err != nil {
		return fmt.Errorf("snapshot %d: %w", seq, err)
	}
	it.vector.store(s)
	if it.devices == nil {
		return nil
	}
	if err := it.readCores(); err != nil {
		return fmt.Errorf("snapshot %d: %w", seq, err)
	}
	return it.devices.read(s)
}

func (it *iterator) readCores() (err error) {
	switch row := it.row[rowCores].(type) {
	case nil:
		it.cores = it.cores[:0]
	case []byte:
		it.cores, err = decodeCores(it.cores, row)
	default:
		err = errCores
	}
	it.snapshot.CPUs = storeCores(it.snapshot.CPUs, it.cores)
	return err
}
