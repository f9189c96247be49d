package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// FoundJob has the runs of a JOB argument in the local spool and at a site.
type FoundJob struct {
	Entries []spool.Entry // from the local spool, and after Fetch also from the site; the oldest first
	Runs    []FoundRun    // at the site
	Live    []FoundRun    // at the site, with only the figures so far
	Site    *Client       // nil: it was not asked
	// Err says why runs may be missing; nil if none is.
	Err error

	dir string // of the fetched runs; empty if there are none
}

// Wanted is what Look looks for, and what is known of it.
type Wanted struct {
	Job, Node string // of the command line; Node may be empty
	Dir       string // the local spool
	Local     []spool.Entry
	LocalErr  error // why there are none in the local spool
}

// Look asks the site for the runs of a job. The error says that there is none in either place. With ErrNotArrived the
// job has the figures so far.
func (c *Client) Look(ctx context.Context, w Wanted) (*FoundJob, error) {
	isDenied := errors.Is(w.LocalErr, fs.ErrPermission)
	isAbsent := errors.Is(w.LocalErr, spool.ErrNotFound) || errors.Is(w.LocalErr, fs.ErrNotExist) || isDenied
	if w.LocalErr != nil && !isAbsent {
		return nil, w.LocalErr
	}
	j := &FoundJob{Entries: w.Local, Site: c}
	found, err := c.Find(ctx, w.Job)
	j.Err = err
	for _, r := range found {
		switch {
		case w.Node != "" && r.Node != w.Node:
		case r.At.ID == "":
			j.Live = append(j.Live, r)
		default:
			j.Runs = append(j.Runs, r)
		}
	}
	switch {
	case len(j.Entries)+len(j.Runs) > 0:
		return j, nil
	case len(j.Live) > 0:
		return j, fmt.Errorf("job %s: %w", w.Job, ErrNotArrived)
	case j.Err != nil:
		return nil, fmt.Errorf("%w; and %w", w.LocalErr, j.Err)
	case isDenied:
		return nil, fmt.Errorf("%w; and there is none at %s", w.LocalErr, c.URL())
	}
	node := ""
	if w.Node != "" {
		node = " on node " + w.Node
	}
	return nil, fmt.Errorf("%w: %s%s is neither in %s nor at %s", spool.ErrNotFound, w.Job, node, w.Dir, c.URL())
}

// LiveSummaries returns the figures so far of the runs that are in no other place.
func (j *FoundJob) LiveSummaries() (list []*report.Summary) {
	for i := range j.Live {
		if j.find(&j.Live[i].Run) < 0 {
			s := j.Live[i].copy().Summary
			s.Partial = j.Site.URL()
			list = append(list, s)
		}
	}
	return list
}

// Names returns the names of all runs, which are JOB arguments.
func (j *FoundJob) Names() (names []string) {
	for i := range j.Entries {
		names = append(names, j.Entries[i].Run.FileStem())
	}
	for i := range j.Runs {
		names = append(names, j.Runs[i].FileStem())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Fetch adds the runs of the site to Entries, as files of a temporary directory, which Close
// removes. Of two copies of a run the better one stays. Fetch passes to warn the runs without a
// record at the site. It fails if there is no run then; otherwise Err says why runs are missing.
func (j *FoundJob) Fetch(ctx context.Context, warn func(error)) error {
	if j.Site == nil {
		return nil
	}
	fetched, problems := j.fetch(ctx)
	j.join(fetched)
	if len(j.Entries) == 0 {
		return j.Close(errors.Join(problems...))
	}
	for _, p := range problems {
		if errors.Is(p, ErrNoRecord) {
			warn(p)
			continue
		}
		j.Err = errors.Join(j.Err, p)
	}
	if j.Err != nil {
		j.Err = fmt.Errorf("%w; only the other runs of the job are shown", j.Err)
	}
	return nil
}

func (j *FoundJob) fetch(ctx context.Context) (fetched []spool.Entry, problems []error) {
	missing := j.missing()
	if len(missing) == 0 {
		return nil, nil
	}
	if len(missing) > maxRuns {
		return nil, []error{fmt.Errorf("the site %s has %d runs of the job, and the limit is %d: --node or a task of an array selects some", j.Site.URL(), len(missing), maxRuns)}
	}
	var err error
	j.dir, err = os.MkdirTemp("", "rt-spool-")
	if err != nil {
		return nil, []error{fmt.Errorf("make a directory for the runs of the site: %w", err)}
	}
	return j.Site.fetchAll(ctx, j.dir, missing)
}

// missing returns the runs of the site that are not in the local spool, or not with all of their
// readings.
func (j *FoundJob) missing() (out []FoundRun) {
	for _, r := range j.Runs {
		k := j.find(&r.Run)
		isBetter := k >= 0 && r.At.HasRecord && !isWhole(&j.Entries[k])
		if k < 0 || isBetter {
			out = append(out, r)
		}
	}
	return out
}

// find returns the index of a copy of a run in Entries, -1 for none.
func (j *FoundJob) find(r *rt.Run) int {
	return slices.IndexFunc(j.Entries, func(e spool.Entry) bool { return e.Run.IsSame(r) })
}

func (j *FoundJob) join(fetched []spool.Entry) {
	for i := range fetched {
		e := &fetched[i]
		k := j.find(&e.Run)
		switch {
		case k < 0:
			j.Entries = append(j.Entries, *e)
		case j.copyOf(e).Better(j.copyOf(&j.Entries[k])):
			j.Entries[k] = *e
		}
	}
	slices.SortStableFunc(j.Entries, func(a, b spool.Entry) int {
		return cmp.Or(a.Run.Start.Compare(b.Run.Start), strings.Compare(filepath.Base(a.Path), filepath.Base(b.Path)))
	})
}

// copyOf returns what decides between two copies of a run. It reads the last reading of the file.
func (j *FoundJob) copyOf(e *spool.Entry) *rt.Copy {
	return &rt.Copy{State: e.Run.State, HasRecord: true, LastReading: lastReading(e.Path), Readings: e.Snapshots, IsAtSite: j.IsFetched(e.Path), Place: e.Path}
}

// IsFetched reports whether a file is of the site.
func (j *FoundJob) IsFetched(path string) bool { return j.dir != "" && filepath.Dir(path) == j.dir }

// Mark sets in a summary what the files from Fetch lack. A run that has ended is delivered, and of
// another one the site has a part.
func (j *FoundJob) Mark(s *report.Summary, path string) {
	switch {
	case s == nil || !j.IsFetched(path):
	case s.Run.State == rt.StateRunning:
		s.Abandoned, s.Partial = false, j.Site.URL()
	case s.Run.State == rt.StateEnded:
		s.Run.State = rt.StateDelivered
	}
}

// Close removes the files that Fetch made. It returns err, Err and its own error.
func (j *FoundJob) Close(err error) error {
	err = errors.Join(err, j.Err)
	if j.dir != "" {
		err = errors.Join(err, os.RemoveAll(j.dir))
	}
	return err
}
