package drain

import (
	"context"
	"errors"
	"fmt"

	"github.com/resource-tracker/rt/spool"
)

// Collected is what a collection did, or in a dry run would do.
type Collected struct {
	DryRun     bool            `json:"dry_run"`
	SpoolBytes int64           `json:"spool_bytes"` // size of all files of the directory afterwards
	FreedBytes int64           `json:"freed_bytes"`
	Files      []CollectedFile `json:"files"`
	// AnotherRuns: nothing was done because a drain or another gc is running.
	AnotherRuns bool `json:"another_drain_runs"`
}

// CollectedFile is one file that was removed or thinned, or would be. Its action in a dry run is "would remove" or
// "would thin".
type CollectedFile struct {
	spool.Collected
	Job   string `json:"job,omitempty"`
	Node  string `json:"node,omitempty"`
	Error string `json:"error,omitempty"`
}

// wouldBe are the actions of a dry run.
var wouldBe = map[string]string{spool.Removed: "would remove", spool.Thinned: "would thin"}

// Collect removes and thins the runs of a directory while it holds the directory's lock. If it
// fails, the result has what was done until then.
func Collect(ctx context.Context, dir string, o spool.GC) (Collected, error) {
	g := Collected{DryRun: o.DryRun, Files: []CollectedFile{}}
	unlock, err := LockSpool(ctx, dir)
	if errors.Is(err, spool.ErrLocked) {
		g.AnotherRuns = true
		return g, nil
	}
	if err != nil {
		return g, err
	}
	done, total, err := spool.Collect(ctx, dir, o)
	g.SpoolBytes = total
	failed := 0
	for _, d := range done {
		f := CollectedFile{Collected: d, Node: d.Run.Node}
		if o.DryRun {
			f.Action = wouldBe[d.Action]
		}
		if d.Run.JobID.Valid() {
			f.Job = d.Run.Label()
		}
		if d.Err != nil {
			f.Error = d.Err.Error()
			failed++
		}
		g.FreedBytes += d.Freed
		g.Files = append(g.Files, f)
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d files could not be removed or thinned", failed, len(done)))
	}
	return g, errors.Join(err, unlock())
}
