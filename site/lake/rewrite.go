package lake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/resource-tracker/rt/site"
)

// rewriting is a file that is being written: the new version of an old one, or a new one.
type rewriting struct {
	*Lake
	*update
	old struct {
		runs, samples *tableReader // nil: there is none
		ranges        []samplesOf  // of samples, not yet read
		left          int          // rows of ranges
		rowBytes      float64      // mean size of a row of samples
		closers       []func() error
	}
	runs, samples *tableWriter
	copied        struct{ runs, samples int } // rows of the old files that are copied next
	// written are the runs to mark as written. Some are not in the file: another registration of the run is there, or
	// the record cannot be read.
	written []site.Changed
	again   []site.Changed // for Registry.MarkChanged
	done    Totals
	hasLost bool // the old samples have rows of a run that is not in the file
}

// rewrite replaces the two files with a number. The new files have the changed runs, and the old
// rows without the runs that are gone. The file of samples is replaced first: a run never lacks its
// samples.
func (l *Lake) rewrite(ctx context.Context, u *update, f files, done *Totals) (err error) {
	r := &rewriting{Lake: l, update: u}
	l.samples.reset()
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(ctx, f); err != nil {
		return err
	}
	if err := r.merge(ctx, u.entries[f.number], isLast(u, f)); err != nil {
		return err
	}
	if len(r.again) > 0 { // before the files change: a writer that is killed does not see them again
		if err := r.Registry.MarkChanged(ctx, r.partition, r.again); err != nil {
			return err
		}
	}
	if err := r.store(ctx, f); err != nil {
		return err
	}
	if err := r.Lake.written(ctx, r.written); err != nil {
		return err
	}
	done.add(r.done)
	return nil
}

func (t *Totals) add(more Totals) {
	t.Runs += more.Runs
	t.Samples += more.Samples
	t.Removed += more.Removed
	t.Failed += more.Failed
	t.Files += more.Files
	t.Bytes += more.Bytes
}

// isLast reports whether new runs may go to a file.
func isLast(u *update, f files) bool {
	return len(u.files) == 0 || f.number >= u.files[len(u.files)-1].number
}

// open opens the old files and makes the new ones.
func (r *rewriting) open(ctx context.Context, f files) (err error) {
	if f.runs >= 0 {
		r.old.runs, _, err = r.openOld(ctx, tableRuns, f.number)
	}
	hasSamples := f.runs >= 0 && f.samples >= 0
	if err == nil && hasSamples {
		r.old.samples, r.old.ranges, err = r.openOld(ctx, tableSamples, f.number)
	}
	for _, s := range r.old.ranges {
		r.old.left += s.rows
	}
	r.old.rowBytes = float64(f.samples) / float64(max(r.old.left, 1))
	if err == nil {
		r.runs, err = createTable(r.temp, r.Lake.runs.schema, r.Lake.runs.about, min(groupRuns, r.groupRows))
	}
	if err == nil {
		r.samples, err = createTable(r.temp, r.Lake.samples.schema, r.Lake.samples.about, r.groupRows)
	}
	return err
}

func (r *rewriting) openOld(ctx context.Context, table string, number int) (t *tableReader, ranges []samplesOf, err error) {
	name := objectName(table, r.partition, number)
	f, err := r.fetch(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	r.old.closers = append(r.old.closers, f.Close)
	schema := r.Lake.runs.schema
	if table == tableSamples {
		schema = r.Lake.samples.schema
		ranges, err = r.readRanges(name, f)
		if err != nil {
			return nil, nil, err
		}
	}
	t, err = openTable(name, f, schema)
	if err == nil {
		r.old.closers = append(r.old.closers, t.close)
	}
	return t, ranges, err
}

func (r *rewriting) close() error {
	var failed []error
	for i := len(r.old.closers) - 1; i >= 0; i-- {
		failed = append(failed, r.old.closers[i]())
	}
	for _, w := range []*tableWriter{r.runs, r.samples} {
		if w != nil {
			failed = append(failed, w.discard())
		}
	}
	return errors.Join(failed...)
}

// merge writes the old rows and the changed runs in the order of their jobs. New runs for which there is no room stay
// in fresh.
func (r *rewriting) merge(ctx context.Context, old []entry, hasFresh bool) error {
	for _, e := range old {
		for hasFresh && r.hasNext(&e) {
			if err := r.writeNext(ctx); err != nil {
				return err
			}
		}
		if err := r.writeOld(ctx, &e); err != nil {
			return err
		}
	}
	for hasFresh && r.hasNext(nil) {
		if err := r.writeNext(ctx); err != nil {
			return err
		}
	}
	return r.copyRows()
}

// hasNext reports whether there is room for the next new run, and it belongs before an entry.
func (r *rewriting) hasNext(before *entry) bool {
	size := float64(r.samples.size()) + float64(r.old.left+r.copied.samples)*r.old.rowBytes
	isRoom := len(r.fresh) > 0 && size < float64(r.FileBytes)
	if before == nil || !isRoom {
		return isRoom
	}
	return compareOrder(orderOf(&r.fresh[0][0]), before.order) < 0
}

func (r *rewriting) writeNext(ctx context.Context) error {
	r.ahead.begin(ctx, r.Decode, r.fresh)
	next := r.fresh[0]
	r.fresh = r.fresh[1:]
	_, err := r.writeFirst(ctx, next)
	return err
}

// writeOld copies a run, replaces it, or leaves it out.
func (r *rewriting) writeOld(ctx context.Context, e *entry) error {
	rows, err := r.samplesOfRun(e.name)
	if err != nil {
		return err
	}
	isKept := !r.drop[e.name]
	if !isKept {
		r.done.Removed++
		r.again = append(r.again, site.Changed{ID: e.id, Node: e.node, Start: time.UnixMicro(e.start)})
	} else if list := r.replace[e.name]; len(list) > 0 {
		isWritten, err := r.writeFirst(ctx, list)
		if err != nil {
			return err
		}
		isKept = !isWritten
	} else if rows != e.samples && !r.stays[e.id] { // a writer that had lost its lock has stored one of the two files
		r.again = append(r.again, site.Changed{Node: e.node, Start: time.UnixMicro(e.start)})
	}
	if isKept {
		r.copied.runs++
		r.copied.samples += rows
		return nil
	}
	return r.skip(1, rows)
}

// samplesOfRun returns how many samples a run has. It skips the samples of earlier runs that runs
// does not have.
func (r *rewriting) samplesOfRun(name string) (rows int, err error) {
	at := 0
	for at < len(r.old.ranges) && r.old.ranges[at].name != name {
		at++
	}
	if at == len(r.old.ranges) {
		return 0, nil // it has none
	}
	for _, lost := range r.old.ranges[:at] {
		r.hasLost = true
		if err := r.skip(0, lost.rows); err != nil {
			return 0, err
		}
	}
	rows = r.old.ranges[at].rows
	for _, read := range r.old.ranges[:at+1] {
		r.old.left -= read.rows
	}
	r.old.ranges = r.old.ranges[at+1:]
	return rows, nil
}

// skip leaves out rows of the old files, after those that are copied next.
func (r *rewriting) skip(runs, samples int) error {
	if err := r.copyRows(); err != nil {
		return err
	}
	err := r.old.runs.skip(runs)
	if err == nil && samples > 0 {
		err = r.old.samples.skip(samples)
	}
	return err
}

// copyRows copies the rows that wait for it.
func (r *rewriting) copyRows() error {
	runs, samples := r.copied.runs, r.copied.samples
	r.copied.runs, r.copied.samples = 0, 0
	if runs == 0 {
		return nil
	}
	if err := r.flush(); err != nil {
		return err
	}
	err := r.old.runs.copyTo(r.runs, runs)
	if err == nil && samples > 0 {
		err = r.old.samples.copyTo(r.samples, samples)
	}
	return err
}

// flush writes the samples that the encoder has.
func (r *rewriting) flush() error {
	rows, err := r.Lake.samples.flush(r.samples.columns)
	if err != nil {
		return err
	}
	return r.samples.added(rows)
}

// writeFirst writes the first registration of a run whose record can be read. If there is none,
// isWritten is false, and the version that the lake has stays. Records can have a shorter retention
// than the lake.
func (r *rewriting) writeFirst(ctx context.Context, list []site.Changed) (isWritten bool, err error) {
	for i, c := range list {
		run, isTried, err := r.decode(ctx, c.ID, &r.done)
		if err != nil {
			return false, err
		}
		if isTried {
			r.written = append(r.written, c)
		}
		if run != nil {
			r.written = append(r.written, list[i+1:]...)
			return true, r.writeRun(ctx, c.ID, run)
		}
	}
	return false, nil
}

// writeRun writes a run, and closes it.
func (r *rewriting) writeRun(ctx context.Context, id string, run *DecodedRun) (err error) {
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := r.copyRows(); err != nil {
		return err
	}
	n := uint64(0)
	r.Lake.samples.begin(&run.Run)
	for s, err := range run.Snapshots {
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		n++
		if isFull := r.Lake.samples.add(s); !isFull {
			continue
		}
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.done.Runs++
	r.done.Samples += int64(n)
	return r.runs.write(r.Lake.runs.encode(headOf(id, &run.Run, n), run.Report), 1)
}

// isUnchanged reports whether the store has what the files would have: no new run or version could be read.
func (r *rewriting) isUnchanged(f files) bool {
	hasLost := r.hasLost || len(r.old.ranges) > 0
	if hasLost || r.done.Runs+r.done.Removed > 0 {
		return false
	}
	return len(f.versions) == 0 || len(f.versions) == 2 // one of the two is what a killed writer has left
}

// store replaces the files in the store.
func (r *rewriting) store(ctx context.Context, f files) error {
	if r.isUnchanged(f) {
		return nil
	}
	if err := r.flush(); err != nil {
		return err
	}
	tables := []struct {
		name string
		*tableWriter
	}{{tableSamples, r.samples}, {tableRuns, r.runs}}
	for _, t := range tables {
		name := objectName(t.name, r.partition, f.number)
		size, err := t.finish()
		if err != nil {
			return err
		}
		if err := r.put(ctx, name, f.versions[t.name], size, t.file); err != nil {
			return err
		}
		r.done.Files++
		r.done.Bytes += size
	}
	return nil
}

// put stores a file in the place of the version that was read.
func (l *Lake) put(ctx context.Context, name, version string, size int64, f *os.File) error {
	if err := l.Check(ctx); err != nil {
		return fmt.Errorf("the lake may have another writer: %w", err)
	}
	return l.Store.Replace(ctx, name, version, size, f)
}
