package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// The limits of the earlier runs that a report reads for its advice. Reading that many takes a few
// seconds.
const (
	maxEarlierRuns      = 200
	maxEarlierSnapshots = 50_000
)

// EarlierSource is where Earlier finds runs.
type EarlierSource struct {
	Dirs []string                                   // spool directories
	Read func(path string) (*report.Summary, error) // reads one run
	Site []*report.Summary                          // runs of a site with what the advice takes from them; of two copies the file is used
}

// candidate is a run that may be in the sample.
type candidate struct {
	name      string // of its file, without the directory
	run       *rt.Run
	snapshots int64
	read      func() (*report.Summary, error)
}

// Earlier returns the earlier runs of jobs, sorted from the oldest, and only the newest ones if
// there are many. known are the runs of the jobs themselves. Earlier leaves out runs that cannot be read.
// It fails if it cannot list a directory, or if ctx ends.
func Earlier(ctx context.Context, jobs []*report.JobSummary, known []spool.Entry, from EarlierSource) ([]*report.Summary, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	list, err := from.candidates()
	if err != nil {
		return nil, fmt.Errorf("find the earlier runs of the job: %w", err)
	}
	seen := map[string]bool{}
	for i := range known {
		seen[known[i].Run.FileStem()] = true
	}
	list = slices.DeleteFunc(list, func(c candidate) bool {
		isSeen := seen[c.name]
		seen[c.name] = true
		return isSeen || !isEarlierOf(jobs, c.run)
	})
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(-a.run.Start.Compare(b.run.Start), cmp.Compare(a.name, b.name))
	})
	var out []*report.Summary
	snapshots := int64(0)
	for _, c := range list[:min(len(list), maxEarlierRuns)] {
		snapshots += c.snapshots
		if snapshots > maxEarlierSnapshots {
			break
		}
		s, err := c.read()
		if ctxErr := ctx.Err(); ctxErr != nil {
			return nil, ctxErr
		}
		if s == nil || err != nil {
			continue // the sample has no damaged files; rt-spool verify reports them
		}
		out = append(out, s)
	}
	slices.Reverse(out) // sorted from the oldest
	return out, nil
}

// candidates returns all runs, the files first.
func (from *EarlierSource) candidates() (list []candidate, err error) {
	for _, dir := range from.Dirs {
		found, err := spool.List(dir)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if e := &found[i]; e.Err == nil {
				list = append(list, candidate{e.Run.FileStem(), &e.Run, e.Snapshots, func() (*report.Summary, error) { return from.Read(e.Path) }})
			}
		}
	}
	for _, s := range from.Site {
		list = append(list, candidate{s.Run.FileStem(), &s.Run, int64(s.Record.Readings), func() (*report.Summary, error) { return s, nil }})
	}
	return list, nil
}

func isEarlierOf(jobs []*report.JobSummary, r *rt.Run) bool {
	hasEnded := r.State != rt.StateRunning
	return hasEnded && slices.ContainsFunc(jobs, func(j *report.JobSummary) bool { return j.MayCompare(r) })
}
