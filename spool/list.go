package spool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
)

// Entry is one file of a spool directory.
type Entry struct {
	Path        string
	Run         rt.Run
	Live        bool      // its tracker is alive
	Size        int64     // bytes, with the log beside it
	Snapshots   int64     // how many are stored
	Unsent      int64     // of these, how many no receiver has confirmed
	DeliveredAt time.Time // zero before
	// Err says why the file cannot be read; the fields but Path and Size are then
	// empty. The other entries are not affected.
	Err error

	written time.Time // when the log, or without one the file, was last written
}

// List looks at every file of dir whose name ends in .db, oldest run first, and
// those that cannot be read last. What else lies there is ignored. The error is
// that of the directory alone.
func List(dir string) ([]Entry, error) {
	paths, err := databases(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(paths))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(listAtOnce, runtime.GOMAXPROCS(0), len(paths)) {
		wg.Go(func() { inspectAll(paths, entries, &next) })
	}
	wg.Wait()
	sortEntries(entries)
	return entries, nil
}

// inspectAll takes the next path that nobody has taken, until there is none. A file
// that brings it down cannot be read.
func inspectAll(paths []string, entries []Entry, next *atomic.Int64) {
	var i int64
	defer func() {
		if p := recover(); p != nil {
			entries[i] = Entry{Path: paths[i], Err: fmt.Errorf("read %s: internal error, please report it with the file: %v", paths[i], p)}
			inspectAll(paths, entries, next)
		}
	}()
	for i = next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
		entries[i] = inspect(paths[i])
	}
}

// listAtOnce is how many files List opens at the same time at most: SQLite reads a
// file's schema each time, which takes a core a millisecond.
const listAtOnce = 8

// Walk shows visit what List returns, one file after the other by their names: for
// directories of very many runs. Of a run that was delivered, and has not changed since,
// only Path, Size, Run.State and DeliveredAt may be set: its file is not opened. The
// entry is visit's to keep.
func Walk(dir string, visit func(*Entry)) error { return walk(dir, true, visit) }

func walk(dir string, mark bool, visit func(*Entry)) error {
	paths, err := databases(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		visit(glance(path, mark))
	}
	return nil
}

// glance is inspect, but opens a file that was delivered only when it has changed. With
// mark it sees to that.
func glance(path string, mark bool) *Entry {
	if e, ok := peek(path); ok {
		return e
	}
	st, err := os.Lstat(path)
	mark = mark && err == nil && markable(st)
	e := inspect(path)
	if mark && e.Err == nil && delivered(&e) {
		markDelivered(path, st, e.DeliveredAt)
	}
	return &e
}

// databases are the files of a directory that are named as runs are.
func databases(dir string) (paths []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), dbSuffix) {
			paths = append(paths, filepath.Join(dir, f.Name()))
		}
	}
	return paths, nil
}

func sortEntries(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(b2i(a.Err != nil), b2i(b.Err != nil)),
			a.Run.Start.Compare(b.Run.Start),
			strings.Compare(a.Path, b.Path),
		)
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inspect reads what an Entry shows of one file.
func inspect(path string) (e Entry) {
	e.Path = path
	// To look at a file brings its log into it: the log's time is the tracker's.
	for _, p := range []string{path, path + "-wal"} {
		if st, err := os.Lstat(p); err == nil {
			e.Size += st.Size()
			e.written = st.ModTime()
		}
	}
	r, err := openReader(path)
	if err != nil {
		e.Err = err
		return e
	}
	var errs [5]error
	e.Run = r.Run()
	e.Snapshots, errs[0] = r.stored()
	e.DeliveredAt, errs[1] = r.DeliveredAt()
	e.Live, errs[2] = r.Live()
	e.Unsent, errs[3] = r.unsent(e.Snapshots, e.DeliveredAt)
	errs[4] = r.Close()
	if err := errors.Join(errs[:]...); err != nil {
		return Entry{Path: path, Size: e.Size, Err: err, written: e.written}
	}
	return e
}

// stored is how many snapshots there are: by their numbers, which is quick, without
// those that were thinned.
func (r *Reader) stored() (int64, error) {
	last, err := r.LastSeq()
	if err != nil {
		return 0, err
	}
	gone, err := thinned(r.db)
	return last - gone, describe(r.path, err)
}

// unsent is how many of the snapshots are after the last batch that was confirmed.
func (r *Reader) unsent(snapshots int64, delivered time.Time) (int64, error) {
	if !delivered.IsZero() {
		return 0, nil
	}
	sent, err := r.db.queryInt("SELECT max(last_seq) FROM batch WHERE uploaded_us IS NOT NULL")
	if err != nil || sent == 0 {
		return snapshots, describe(r.path, err)
	}
	n, err := r.db.queryInt("SELECT count(*) FROM snapshot_delta WHERE seq > ?", sent)
	return n, describe(r.path, err)
}

// FindJob finds the runs that a person means: "12" is a job with all its array
// tasks and steps, "12_3" a task of an array, "12.0" a step, the name of a run
// (rt.Run.FileStem) that one, and what holds a slash or ends in .db is a file.
// They come oldest first; ErrNotFound where there
// is none.
func FindJob(dir, job string) ([]Entry, error) {
	if strings.HasSuffix(job, dbSuffix) || strings.ContainsRune(job, filepath.Separator) {
		e := inspect(job)
		if e.Err != nil {
			return nil, e.Err
		}
		return []Entry{e}, nil
	}
	entries, err := List(dir)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(entries, func(e Entry) bool { return e.Err != nil || !matches(&e.Run, job) })
	if len(found) == 0 {
		return nil, fmt.Errorf("job %q in %s: %w; rt-spool ls shows what there is", job, dir, ErrNotFound)
	}
	return found, nil
}

func matches(run *rt.Run, job string) bool {
	if job == run.FileStem() {
		return true
	}
	job, step, withStep := strings.Cut(job, ".")
	if withStep && step != run.Step {
		return false
	}
	label, _, _ := strings.Cut(run.Label(), ".")
	if job == label {
		return true
	}
	id, err := strconv.ParseUint(job, 10, 64)
	if err != nil {
		return false
	}
	return run.JobID == rt.Some(id) || run.ArrayJobID == rt.Some(id)
}
