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
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Entry is one file of a spool directory.
type Entry struct {
	Path        string
	Run         rt.Run
	Live        bool      // its tracker is alive
	Size        int64     // bytes, including the log
	Snapshots   int64     // how many are stored
	Unsent      int64     // how many of them no receiver has confirmed
	DeliveredAt time.Time // zero before
	// SuspendedSecs is how long the job was suspended: from accounting, or else at least what the readings show; absent
	// for 0.
	SuspendedSecs rt.Opt[float64]
	// Err says why the file cannot be read; all fields except Path and Size are then
	// empty. The other entries are not affected.
	Err error

	written time.Time // time of the last write to the log or, without a log, to the file
}

// List returns an entry for each file of dir that ends in .db, the oldest run first. Files that
// cannot be read come last, also logs with readings whose .db is gone. Other files are ignored. The error is about the
// directory.
func List(dir string) ([]Entry, error) {
	paths, err := databases(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(paths))
	turns := make(chan struct{}, min(listAtOnce, runtime.GOMAXPROCS(0)))
	var wg sync.WaitGroup
	for i, path := range paths {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil { // one file must not hide the others
					entries[i] = Entry{Path: path, Err: fmt.Errorf("read %s: internal error, please report it with the file: %v", path, p)}
				}
				<-turns
			}()
			entries[i] = inspect(path)
		})
	}
	wg.Wait()
	lost, err := lostLogs(dir)
	entries = append(entries, lost...)
	sortEntries(entries)
	return entries, err
}

// listAtOnce bounds the files that List opens at the same time. SQLite reads the schema of
// each file, which takes 1 ms of CPU time.
const listAtOnce = 8

// Walk calls visit with the entries that List returns, sorted by name, one after the other: for
// directories with very many runs. It need not open the file of a delivered run that has not
// changed since. Then only Path, Size, Run.State and DeliveredAt are set. visit may keep the entry.
// Err also reports files that CheckOwner refuses, because the callers change the files.
func Walk(dir string, visit func(*Entry)) error { return walk(dir, true, visit) }

// WalkReadOnly is Walk for a caller that changes nothing: a delivered file gets no mark, which would make the
// next Walk cheaper.
func WalkReadOnly(dir string, visit func(*Entry)) error { return walk(dir, false, visit) }

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

// glance does the same as inspect, but does not open a file with a valid mark. With mark it
// marks delivered files.
func glance(path string, mark bool) *Entry {
	if err := CheckOwner(path); err != nil {
		return &Entry{Path: path, Err: err}
	}
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

// databases lists the files of a directory that have the suffix of runs.
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

// inspect reads the entry of one file.
func inspect(path string) (e Entry) {
	e.Path = path
	// Opening the file moves the log into it: only before does its time say when the tracker last
	// wrote.
	for _, p := range []string{path, path + "-wal"} {
		if st, err := os.Lstat(p); err == nil {
			e.Size += st.Size()
			e.written = st.ModTime()
		}
	}
	r, err := within(path, func() (*Reader, error) { return openReader(path) })
	if err != nil {
		e.Err = err
		return e
	}
	var errs [6]error
	e.Run = r.Run()
	e.Snapshots, errs[0] = storedSnapshots(r)
	e.DeliveredAt, errs[1] = r.Delivery().DeliveredAt()
	e.Live, errs[2] = r.Live()
	e.Unsent, errs[3] = unsentSnapshots(r, e.Snapshots, e.DeliveredAt)
	e.SuspendedSecs, errs[4] = suspendedSecs(r)
	errs[5] = r.Close()
	if err := errors.Join(errs[:]...); err != nil {
		return Entry{Path: path, Size: e.Size, Err: err, written: e.written}
	}
	return e
}

// storedSnapshots returns how many snapshots there are: the last number less those that were thinned,
// which is faster than counting.
func storedSnapshots(r *Reader) (int64, error) {
	last, err := r.LastSeq()
	if err != nil {
		return 0, err
	}
	gone, err := thinned(r.db)
	return last - gone, describe(r.path, err)
}

// suspendedSecs returns how long the job was suspended. The last snapshots may be without it, because the job is gone.
func suspendedSecs(r *Reader) (secs rt.Opt[float64], err error) {
	row, err := r.db.query("SELECT detail FROM event WHERE kind = 'job' AND name = 'sacct' AND status = 'ok' LIMIT 1")
	if err != nil {
		return secs, describe(r.path, err)
	}
	if len(row) > 0 {
		detail, _ := row[0].(string)
		_, after, _ := strings.Cut(" "+detail, " suspended_secs=")
		text, _, _ := strings.Cut(after, " ")
		if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 {
			secs.Set(n)
		}
		return secs, nil
	}
	usec, err := r.db.queryInt("SELECT max(job_suspended_us) FROM (SELECT job_suspended_us FROM snapshot ORDER BY seq DESC LIMIT 100)")
	if usec > 0 {
		secs.Set(float64(usec) / 1e6)
	}
	return secs, describe(r.path, err)
}

// unsentSnapshots returns how many snapshots follow the last batch that was confirmed.
func unsentSnapshots(r *Reader, snapshots int64, delivered time.Time) (int64, error) {
	if !delivered.IsZero() {
		return 0, nil
	}
	sent, err := r.db.queryInt("SELECT max(last_seq) FROM batch WHERE uploaded_us IS NOT NULL")
	if err != nil || sent == 0 {
		return snapshots, describe(r.path, err)
	}
	n, err := r.db.queryInt("SELECT count(*) FROM snapshot WHERE seq > ?", sent)
	return n, describe(r.path, err)
}

// FindJob returns the runs that a user names, the oldest first. "12" is a job with all its array
// tasks, components and steps, and "12_3" a task of an array. "12+1" is a component of a
// heterogeneous job, "12.0" a step, and rt.Run.FileStem one run. An argument with a slash or with
// the suffix .db is a file. If there is none, the error is ErrNotFound.
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
	believeArrays(entries)
	var found []Entry
	unread := 0
	for _, e := range entries {
		switch {
		case e.Err != nil:
			unread++
		case Matches(&e.Run, job):
			found = append(found, e)
		}
	}
	if len(found) == 0 && unread > 0 {
		return nil, fmt.Errorf("%w: %q is not in %s, as far as it can be read; rt-spool ls lists the runs, and the files that cannot be read (%d)", ErrNotFound, job, dir, unread)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q is not in %s; rt-spool ls lists the runs", ErrNotFound, job, dir)
	}
	return found, nil
}

// believeArrays gives the tasks of arrays the ids that another run proves.
func believeArrays(entries []Entry) {
	var runs []*rt.Run
	for i := range entries {
		if entries[i].Err == nil {
			runs = append(runs, &entries[i].Run)
		}
	}
	slurm.BelieveArrays(runs, nil)
}

// Matches reports whether a run is one that a user names, see FindJob. It does not compare the paths of
// files.
func Matches(run *rt.Run, job string) bool {
	if job == run.FileStem() {
		return true
	}
	job, step, withStep := strings.Cut(job, ".")
	if withStep && step != run.Step {
		return false
	}
	label, _, _ := strings.Cut(run.Label(), ".")
	isComponent := job != "" && job == run.Component()
	if job == label || isComponent {
		return true
	}
	id, err := strconv.ParseUint(job, 10, 64)
	if err != nil {
		return false
	}
	return run.JobID == rt.Some(id) || run.ArrayJobID == rt.Some(id) || run.HetJobID == rt.Some(id)
}

// JobNumber returns the number in the name of a job or a run, by which a site finds it: 12 for "12_3". It is absent
// outside a scheduler.
func JobNumber(job string) (id rt.Opt[uint64]) {
	job = strings.TrimPrefix(job, "job-") // the name of a run
	end := strings.IndexFunc(job, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(job)
	}
	if n, err := strconv.ParseUint(job[:end], 10, 64); err == nil {
		id.Set(n)
	}
	return id
}
