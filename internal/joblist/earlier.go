package joblist

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
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

// Earlier returns the earlier runs of jobs, sorted from the oldest, and only the newest ones if
// there are many. entries are the runs of the jobs themselves; the earlier ones are in the same
// directories. read reads one run; Earlier leaves out runs that cannot be read. Earlier fails if it
// cannot list a directory, or if ctx ends.
func Earlier(ctx context.Context, jobs []*report.Job, entries []spool.Entry, read func(path string) (*report.Summary, error)) ([]*report.Summary, error) {
	var list []spool.Entry
	var dirs []string
	known := map[string]bool{}
	for i := range entries {
		known[entries[i].Path] = true
		dir := filepath.Dir(entries[i].Path)
		if slices.Contains(dirs, dir) {
			continue
		}
		dirs = append(dirs, dir)
		found, err := spool.List(dir)
		if err != nil {
			return nil, fmt.Errorf("find the earlier runs of the job: %w", err)
		}
		list = append(list, found...)
	}
	list = slices.DeleteFunc(list, func(e spool.Entry) bool {
		return e.Err != nil || known[e.Path] || !isEarlierOf(jobs, &e.Run)
	})
	slices.SortFunc(list, func(a, b spool.Entry) int {
		return cmp.Or(-a.Run.Start.Compare(b.Run.Start), cmp.Compare(a.Path, b.Path))
	})
	var out []*report.Summary
	snapshots := int64(0)
	for _, e := range list[:min(len(list), maxEarlierRuns)] {
		snapshots += e.Snapshots
		if snapshots > maxEarlierSnapshots {
			break
		}
		s, err := read(e.Path)
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

func isEarlierOf(jobs []*report.Job, r *rt.Run) bool {
	hasEnded := r.State != rt.StateRunning
	isOf := func(j *report.Job) bool {
		isSame := j.Name != "" && j.Name == r.Meta.JobName && j.User == r.User && j.Cluster == r.Cluster
		of := &j.Runs[0].Run
		isTask := of.ArrayJobID.Valid() && of.ArrayJobID == r.ArrayJobID
		isBefore := !r.Start.After(j.Start)
		inSample := isTask || isBefore
		return isSame && inSample
	}
	return hasEnded && slices.ContainsFunc(jobs, isOf)
}
