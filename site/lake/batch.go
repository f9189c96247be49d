package lake

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// writeBatch writes the last versions of runs in one snapshot of each table. It returns the registrations that are done
// with: an absent record is tried again.
func (l *Lake) writeBatch(ctx context.Context, batch []site.Changed, done *Totals) (written []site.Changed, err error) {
	list, err := l.want(ctx, batch, done)
	if err != nil {
		return nil, err
	}
	if err := l.findOld(ctx, list); err != nil {
		return nil, err
	}
	r, change := newReader(l, done), &exchange{}
	defer r.rows.Release()
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	change.samples.add, err = l.samples.write(ctx, l.FileBytes, r.samples(ctx, list))
	if err != nil {
		return err
	}
	change.runs.add, err = l.runs.write(ctx, l.FileBytes, r.runs)
	return err
}

// reader reads the rows of runs from their records.
type reader struct {
	*Lake
	done    *Totals
	absent  map[string]bool // registrations whose record is absent
	rows    *array.RecordBuilder
	run     *run
	columns *columns
}

func newReader(l *Lake, done *Totals) *reader {
	r := &reader{Lake: l, done: done, absent: map[string]bool{}, run: &run{}}
	r.columns, _ = r.run.columns() // Open has made them before
	r.columns.bind(l.runs.schema.Fields())
	r.rows = array.NewRecordBuilder(memory.DefaultAllocator, l.runs.schema)
	return r
}

// samples returns the rows of samples. It collects the rows of runs.
func (r *reader) samples(ctx context.Context, list []*wanted) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for c := range r.decodeAll(ctx, list) {
			for rows := range c.rows {
				if !yield(rows, nil) {
					return
				}
			}
			if c.err != nil {
				yield(nil, c.err)
				return
			}
			for _, d := range c.runs {
				r.add(d)
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// add adds the row of a run whose samples are read.
func (r *reader) add(d *decoded) {
	for id, err := range d.failed {
		r.Problem(id, err)
		r.done.Failed++
		r.absent[id] = errors.Is(err, ErrAbsent)
	}
	if !d.of.isRead {
		return
	}
	r.done.Runs++
	r.done.Samples += d.samples
	r.run.set(d)
	r.columns.add(r.rows.Field)
}

// runs returns the rows of runs, after the rows of samples.
func (r *reader) runs(yield func(arrow.RecordBatch, error) bool) { yield(r.rows.NewRecordBatch(), nil) }

// decoded is a run without its samples.
type decoded struct {
	of      *wanted
	id      string // of the registration that was read
	run     rt.Run
	report  *report.Summary
	waste   rt.Opt[float64]
	samples int64
	failed  map[string]error // registrations that cannot be read
}

// chunk is runs that one goroutine decodes, so that their samples are passed on together.
type chunk struct {
	runs []*decoded
	rows chan arrow.RecordBatch
	err  error // after rows is closed
}

func (c *chunk) end(err error) {
	c.err = err
	close(c.rows)
}

const (
	chunkRuns = 32
	batchRows = 4096 // of samples that are passed on at once
)

// decodeAll decodes the records of runs, several chunks at the same time, and returns these in their order.
func (l *Lake) decodeAll(ctx context.Context, list []*wanted) iter.Seq[*chunk] {
	return func(yield func(*chunk) bool) {
		var ahead []*chunk
		for part := range slices.Chunk(list, chunkRuns) {
			ahead = append(ahead, l.startChunk(ctx, part))
			if len(ahead) <= runtime.GOMAXPROCS(0) {
				continue
			}
			if !yield(ahead[0]) {
				return
			}
			ahead = ahead[1:]
		}
		for _, c := range ahead {
			if !yield(c) {
				return
			}
		}
	}
}

func (l *Lake) startChunk(ctx context.Context, list []*wanted) *chunk {
	c := &chunk{rows: make(chan arrow.RecordBatch, 1)}
	for _, w := range list {
		c.runs = append(c.runs, &decoded{of: w, failed: map[string]error{}})
	}
	go func() {
		defer recovery.Handle(func(err error) { c.end(err) })
		c.end(l.decodeChunk(ctx, c))
	}()
	return c
}

func (l *Lake) decodeChunk(ctx context.Context, c *chunk) error {
	e := newEncoder(l.samples.schema, c.rows)
	defer e.rows.Release()
	for _, d := range c.runs {
		if err := l.decode(ctx, d, e); err != nil {
			return err
		}
	}
	return e.flush(ctx)
}

// decode reads the first registration of a run whose record can be read.
func (l *Lake) decode(ctx context.Context, to *decoded, e *encoder) error {
	for _, c := range to.of.registrations {
		d, err := l.Decode(ctx, c.ID)
		isMissing := errors.Is(err, site.ErrNotFound) // retention has removed it
		isFailed := errors.Is(err, ErrAbsent) || errors.Is(err, site.ErrDamaged)
		switch {
		case isFailed:
			to.failed[c.ID] = err
		case err != nil && !isMissing:
			return fmt.Errorf("run %s: %w", c.ID, err)
		case err == nil && d.Run.FileStem() != to.of.Name: // it has been replaced: the next pass has its new name
			err = d.Close()
			if err != nil {
				return err
			}
		case err == nil:
			d.Run.Cluster = to.of.Cluster // as the registry has it, which is the key
			to.id, to.run, to.report, to.waste, to.of.isRead = c.ID, d.Run, d.Report, d.Waste, true
			to.samples, err = e.add(ctx, d)
			return errors.Join(err, d.Close())
		}
	}
	return nil
}

// encoder makes rows of samples.
type encoder struct {
	row     sample
	columns *columns
	rows    *array.RecordBuilder
	n       int64 // rows since the last flush
	to      chan<- arrow.RecordBatch
}

func newEncoder(schema *arrow.Schema, to chan<- arrow.RecordBatch) *encoder {
	e := &encoder{rows: array.NewRecordBuilder(memory.DefaultAllocator, schema), to: to}
	e.columns = e.row.columns()
	e.columns.bind(schema.Fields())
	return e
}

// add adds the samples of a run, and returns their number.
func (e *encoder) add(ctx context.Context, d *DecodedRun) (n int64, err error) {
	e.row.setRun(&d.Run)
	for s, err := range d.Snapshots {
		if err != nil {
			return n, fmt.Errorf("the samples of run %s: %w", d.Run.FileStem(), err)
		}
		e.row.setSnapshot(s)
		e.columns.add(e.rows.Field)
		n++
		e.n++
		if e.n < batchRows {
			continue
		}
		if err := e.flush(ctx); err != nil {
			return n, err
		}
	}
	return n, nil
}

// flush passes the rows on.
func (e *encoder) flush(ctx context.Context) error {
	if e.n == 0 {
		return nil
	}
	e.n = 0
	select {
	case e.to <- e.rows.NewRecordBatch():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
