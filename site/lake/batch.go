package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site"
)

// writeBatch writes the last versions of runs in one snapshot of each table. It returns the registrations that are done
// with: an absent record is tried again.
func (l *Lake) writeBatch(ctx context.Context, batch []site.Changed, done *Totals) (written []site.Changed, err error) {
	defer recovery.Handle(func(p error) { err = p }) // records come from outside
	list, err := l.want(ctx, batch, done)
	if err != nil {
		return nil, err
	}
	if err := l.findOld(ctx, list); err != nil {
		return nil, err
	}
	r, change := newReader(l, done), &exchange{}
	defer r.runRows.Release()
	if err := l.addRuns(ctx, list, r, change); err != nil {
		return nil, err
	}
	var old []site.Changed
	for _, w := range list {
		isOld := w.old != "" && !w.isKept()
		if isOld {
			old = append(old, w.Changed)
		}
		if isOld && !w.isRead {
			done.Removed++
		}
	}
	if err := l.removeRuns(ctx, old, change); err != nil {
		return nil, err
	}
	for _, of := range l.changes(change) {
		for _, f := range of.add {
			done.Files++
			done.Bytes += f.FileSizeBytes()
		}
	}
	return slices.DeleteFunc(batch, func(c site.Changed) bool { return r.absent[c.ID] }), l.apply(ctx, change)
}

// addRuns writes the runs whose records can be read into new files.
func (l *Lake) addRuns(ctx context.Context, list []*wanted, r *reader, change *exchange) (err error) {
	change.samples.add, err = l.samples.write(ctx, l.FileBytes, r.samples(ctx, list))
	if err != nil {
		return err
	}
	change.runs.add, err = l.runs.write(ctx, l.FileBytes, r.runs)
	return err
}

// rowBuilder makes rows of a table from the values that its columns point to.
type rowBuilder struct {
	*array.RecordBuilder
	columns *columns
	n       int // since the last batch
}

func newRowBuilder(schema *arrow.Schema, c *columns) *rowBuilder {
	c.bind(schema.Fields())
	return &rowBuilder{array.NewRecordBuilder(memory.DefaultAllocator, schema), c, 0}
}

func (r *rowBuilder) add() {
	r.columns.add(r.Field)
	r.n++
}

func (r *rowBuilder) batch() arrow.RecordBatch {
	r.n = 0
	return r.NewRecordBatch()
}

// batchRows is the number of samples that are passed on at once.
const batchRows = 4096

// reader reads the rows of runs from their records.
type reader struct {
	*Lake
	done    *Totals
	absent  map[string]bool // registrations whose record is absent
	run     run
	runRows *rowBuilder
	sample  sample
}

func newReader(l *Lake, done *Totals) *reader {
	r := &reader{Lake: l, done: done, absent: map[string]bool{}}
	own, _ := r.run.columns() // Open has made them before
	r.runRows = newRowBuilder(l.runs.schema, own)
	return r
}

// samples returns the rows of samples. It collects the rows of runs.
func (r *reader) samples(ctx context.Context, list []*wanted) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		rows := newRowBuilder(r.Lake.samples.schema, r.sample.columns())
		defer rows.Release()
		for err := range r.readAll(ctx, list) {
			if err != nil {
				yield(nil, err)
				return
			}
			rows.add()
			if rows.n == batchRows && !yield(rows.batch(), nil) {
				return
			}
		}
		if rows.n > 0 {
			yield(rows.batch(), nil)
		}
	}
}

// readAll sets sample to one sample after the other. After the samples of a run it adds its row.
func (r *reader) readAll(ctx context.Context, list []*wanted) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, w := range list {
			goesOn, err := r.read(ctx, w, func() bool { return yield(nil) })
			if err != nil {
				yield(err)
			}
			if err != nil || !goesOn {
				return
			}
		}
	}
}

// read reads a run and calls next for each sample. It ends early if next returns false.
func (r *reader) read(ctx context.Context, w *wanted, next func() bool) (goesOn bool, err error) {
	id, d, err := r.decode(ctx, w)
	if d == nil || err != nil {
		return true, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r.sample.setRun(&d.Run)
	n := 0
	for s, err := range d.Snapshots {
		err = cmp.Or(err, ctx.Err())
		if err != nil {
			return false, fmt.Errorf("the samples of run %s: %w", w.Name, err)
		}
		r.sample.setSnapshot(s)
		if !next() {
			return false, nil
		}
		n++
	}
	r.done.Runs++
	r.done.Samples += int64(n)
	r.run.set(id, d, n)
	r.runRows.add()
	return true, nil
}

// runs returns the rows of runs, after the rows of samples.
func (r *reader) runs(yield func(arrow.RecordBatch, error) bool) { yield(r.runRows.batch(), nil) }

// decode reads the first registration of a run whose record can be read, or returns nil.
func (r *reader) decode(ctx context.Context, w *wanted) (id string, d *DecodedRun, err error) {
	for _, c := range w.registrations {
		d, err := r.Decode(ctx, c.ID)
		isMissing := errors.Is(err, site.ErrNotFound) // retention has removed it
		isFailed := errors.Is(err, ErrAbsent) || errors.Is(err, site.ErrDamaged)
		switch {
		case isFailed:
			r.Problem(c.ID, err)
			r.done.Failed++
			r.absent[c.ID] = errors.Is(err, ErrAbsent)
		case err != nil && !isMissing:
			return "", nil, fmt.Errorf("run %s: %w", c.ID, err)
		case err == nil && d.Run.FileStem() != w.Name: // it has been replaced: the next pass has its new name
			err = d.Close()
			if err != nil {
				return "", nil, err
			}
		case err == nil:
			d.Run.Cluster = w.Cluster // as the registry has it, which is the key
			w.isRead = true
			return c.ID, d, nil
		}
	}
	return "", nil, nil
}
