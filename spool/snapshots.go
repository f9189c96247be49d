package spool

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/resource-tracker/rt"
)

// Scalars iterates over the snapshots with the numbers from to to, without CPUs and devices. If to
// <= 0, it iterates to the newest snapshot at the time of the call. The snapshot is reused: it is
// valid until the next iteration, but a plain copy can be kept, because it has no references. The
// iteration ends after an error.
func (r *Reader) Scalars(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return selection{figures: everyFigure}.iterate(ctx, r, from, to)
}

// Rates is Scalars with only the figures that rt.DeriveScalars and rt.DeriveProcess use; the others
// are absent. It takes two thirds of the time of Scalars. A CSV row needs no other figures. If the
// node has virtual interfaces, Rates has the list of interfaces, because a CSV row includes them.
func (r *Reader) Rates(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		of := selection{figures: rateFigures}
		hasVirtual, err := hasVirtualNets(r.db)
		if err != nil {
			yield(nil, describe(r.path, err))
			return
		}
		if hasVirtual {
			of.lists = []storedList{netList}
		}
		of.iterate(ctx, r, from, to)(yield)
	}
}

// hasVirtualNets reports whether the run has seen an interface that is not in the sums over rt.Wire.
func hasVirtualNets(c *conn) (bool, error) {
	var nets []rt.NetReading
	err := c.identities("net", []string{"name", "driver", "mac"}, func(row []driver.Value) error {
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
	return selection{figures: usageFigures, lists: []storedList{gpuList, gpuProcessList}}.iterate(ctx, r, from, to)
}

// Outline is Usage of at most about most snapshots of a run: the first ones, the last one, and others at equal distances.
// Counters lose nothing by that.
func (r *Reader) Outline(ctx context.Context, most int64) iter.Seq2[*rt.Snapshot, error] {
	return selection{figures: usageFigures, lists: []storedList{gpuList, gpuProcessList}, most: most}.iterate(ctx, r, 1, 0)
}

// Snapshots is Scalars with CPUs and devices, in slices that are also reused. A CPU has its busy
// ticks in User and all other ticks in Idle. Times are in whole microseconds.
func (r *Reader) Snapshots(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return everything.iterate(ctx, r, from, to)
}

// selection is what an iterator reads of each snapshot.
type selection struct {
	figures figureChoice
	cores   bool
	lists   []storedList
	most    int64 // number of snapshots, about; 0: all
}

var everything = selection{figures: everyFigure, cores: true, lists: storedLists[:]}

func (of selection) iterate(ctx context.Context, r *Reader, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		it, err := of.start(ctx, r, max(from, 1), to)
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
				yield(nil, refused(r.path, err))
				return
			}
			if !yield(&it.snapshot, nil) {
				return
			}
		}
	}
}

// iterator iterates over snapshots. It reads in one transaction, because a tracker may thin rows at the same time.
// Reading costs one cgo call per column.
type iterator struct {
	held     driver.Rows
	columns  []column // of snapshot
	rows     *seqRows
	cores    *seqRows // nil: they are not read
	lists    []listReader
	ticks    []core
	snapshot rt.Snapshot
	read     int
}

// start begins to read the snapshots between two numbers.
func (of selection) start(ctx context.Context, r *Reader, from, to int64) (_ *iterator, err error) {
	it := &iterator{}
	defer func() {
		if err != nil {
			it.close()
			err = describe(r.path, err)
		}
	}()
	it.held, err = r.db.hold()
	if err != nil {
		return nil, err
	}
	newest, err := r.db.queryInt(lastSeq)
	if err != nil {
		return nil, err
	}
	if to <= 0 || to > newest {
		to = newest
	}
	it.columns = snapshotColumns(&it.snapshot, of.figures)
	rows := seqRange{from, to, 1}
	if of.most > 0 {
		rows.step = max(1, (to-from+1)/of.most)
	}
	it.rows, err = openRows(ctx, r.db, "snapshot", columnNamesOf(it.columns), rows)
	if err != nil {
		return nil, err
	}
	if of.cores {
		it.cores, err = openRows(ctx, r.db, coreTable, []string{"seq", "cores"}, rows)
		if err != nil {
			return nil, err
		}
	}
	for _, l := range of.lists {
		read, err := l.reader(ctx, r.db, rows)
		if err != nil {
			return nil, err
		}
		it.lists = append(it.lists, read)
	}
	return it, nil
}

func (it *iterator) close() {
	if it.held != nil {
		it.held.Close()
	}
	if it.rows != nil {
		it.rows.close()
	}
	if it.cores != nil {
		it.cores.close()
	}
	for _, l := range it.lists {
		l.close()
	}
}

// next reads the rows of one snapshot into it.
func (it *iterator) next() error {
	seq := it.rows.seq
	if seq == 0 {
		return io.EOF
	}
	it.read++
	err := it.readFigures()
	if err == nil {
		err = it.readCores(seq)
	}
	for i := 0; err == nil && i < len(it.lists); i++ {
		err = it.lists[i].read(&it.snapshot)
	}
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", seq, err)
	}
	return nil
}

func (it *iterator) readFigures() error {
	s := &it.snapshot
	s.Node, s.Job, s.GPU, s.Tree = rt.NodeReading{}, rt.JobReading{}, rt.GPUUse{}, rt.TreeReading{}
	for i, name := range headColumns {
		if it.rows.row[i] == nil {
			return fmt.Errorf("its %s is missing", name)
		}
	}
	if err := scan(it.rows.row, it.columns); err != nil {
		return err
	}
	before := s.Seq
	if err := it.rows.next(); err != nil {
		return err
	}
	if it.rows.seq == before {
		return errors.New("its number is there twice")
	}
	return nil
}

func (it *iterator) readCores(seq int64) error {
	if it.cores == nil {
		return nil
	}
	it.snapshot.CPUs = it.snapshot.CPUs[:0]
	isOf, err := it.cores.isOf(seq)
	if err != nil || !isOf {
		return err
	}
	blob, ok := it.cores.row[1].([]byte)
	if !ok {
		return errCores
	}
	it.ticks, err = decodeCores(it.ticks[:0], blob)
	if err != nil {
		return err
	}
	it.snapshot.CPUs = storeCores(it.snapshot.CPUs, it.ticks)
	return it.cores.next()
}
