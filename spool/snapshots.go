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

// Columns before those of deltaColumns in the rows that a Reader goes through.
const (
	rowSeq, rowReason, rowPhase, rowGPUUsage = 0, 1, 2, 3
	rowDeltas                                = 4
	rowCores                                 = rowDeltas + numCols
)

// scalarColumns are the columns of snapshot_delta but the CPUs, in that order.
var scalarColumns = "seq, reason, job_phase, node_gpu_usage, " + strings.Join(deltaColumns[:], ", ")

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
	columns := scalarColumns
	if full {
		columns += ", core_ticks"
	}
	it.rows, err = r.db.rows(background, "SELECT "+columns+" FROM snapshot_delta WHERE seq BETWEEN ? AND ? ORDER BY seq", key.seq, to)
	if err != nil {
		return nil, describe(r.path, err)
	}
	it.row = make([]driver.Value, len(it.rows.Columns()))
	if full {
		if it.devices, err = openDevices(r.db, key, to); err != nil {
			it.close()
			return nil, describe(r.path, err)
		}
	}
	return it, nil
}

// keyframe is where reading may start.
type keyframe struct {
	seq, deviceRow, gpuRow int64
}

// seek finds the last keyframe at or before from, and sets the sums it holds.
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

var keyframeColumns = "seq, device_row, gpu_row, " + strings.Join(deltaColumns[:], ", ")

// scan takes a row of keyframeColumns.
func (k *keyframe) scan(row []driver.Value, total *sums) error {
	if err := scan(row, []column{{"seq", &k.seq}, {"device_row", &k.deviceRow}, {"gpu_row", &k.gpuRow}}); err != nil {
		return err
	}
	if err := total.add(row[3:], new(vector)); err != nil {
		return fmt.Errorf("keyframe %d: %w", k.seq, err)
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
	s.Node.GPUUsage.Clear()
	if !decode(it.row[rowGPUUsage], &s.Node.GPUUsage) {
		return fmt.Errorf("snapshot %d: node_gpu_usage holds a %T", seq, it.row[rowGPUUsage])
	}
	if err := it.total.add(it.row[rowDeltas:], &it.vector); err != nil {
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
