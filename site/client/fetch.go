package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// Limits of what is fetched, which a hostile site could exceed.
const (
	fetchAtOnce = 4
	maxRuns     = 5000
	maxFile     = 512 << 20 // bytes of the spool file of a run
	maxFiles    = 4 << 30   // bytes of all spool files
)

// ErrNoRecord means that the site has a run without its complete record.
var ErrNoRecord = errors.New("the site has no complete record of it")

// isWhole reports whether the file of a run that has ended has all of its readings: near a quota some
// are removed.
func isWhole(e *spool.Entry) bool {
	if e.Run.State == rt.StateRunning {
		return false
	}
	r, err := spool.Open(e.Path)
	if err != nil {
		return false
	}
	last, err := r.LastSeq()
	err = errors.Join(err, r.Close())
	return err == nil && last == e.Snapshots
}

// lastReading returns the time of the last reading in a file, zero if it cannot be read.
func lastReading(path string) (at time.Time) {
	r, err := spool.Open(path)
	if err != nil {
		return at
	}
	defer r.Close()
	last, err := r.LastSeq()
	if err != nil {
		return at
	}
	for s, err := range r.Snapshots(context.Background(), last, last) {
		if err == nil {
			at = time.Unix(0, s.Wall).UTC()
		}
	}
	return at
}

// fetchAll makes spool files of runs in the directory dir, from their records. problems says why others
// have none: each names its run.
func (c *Client) fetchAll(ctx context.Context, dir string, runs []FoundRun) (entries []spool.Entry, problems []error) {
	f := fetcher{client: c, dir: dir, limit: maxFiles}
	found, failed := make([]*spool.Entry, len(runs)), make([]error, len(runs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(fetchAtOnce, len(runs)) {
		wg.Go(func() {
			defer recovery.Handle(func(error) {}) // fetch handles a panic of a run
			for i := next.Add(1) - 1; i < int64(len(runs)); i = next.Add(1) - 1 {
				found[i], failed[i] = f.fetchRun(ctx, &runs[i])
			}
		})
	}
	wg.Wait()
	for i := range runs {
		switch {
		case failed[i] != nil:
			problems = append(problems, fmt.Errorf("%s: %w", runs[i].Name(), failed[i]))
		case found[i] != nil:
			entries = append(entries, *found[i])
		}
	}
	return entries, problems
}

type fetcher struct {
	client *Client
	dir    string
	used   atomic.Int64 // bytes of the files
	limit  int64        // of used
}

// fetchRun makes the spool file of a run, from the first of its registrations that has its record.
// The error is the best registration's.
func (f *fetcher) fetchRun(ctx context.Context, r *FoundRun) (*spool.Entry, error) {
	e, err := f.fetch(ctx, r, &r.At)
	for i := range r.Others {
		other := &r.Others[i]
		isOfBefore := r.At.State != rt.StateRunning && other.State == rt.StateRunning // it does not stand for one that has ended
		isDone := err == nil || ctx.Err() != nil || !other.HasRecord || isOfBefore || other.ID == r.At.ID
		if isDone {
			continue
		}
		if found, otherErr := f.fetch(ctx, r, other); otherErr == nil {
			e, err = found, nil
		}
	}
	return e, err
}

// fetch makes the spool file of a run from one of its registrations.
func (f *fetcher) fetch(ctx context.Context, r *FoundRun, at *ListedRun) (e *spool.Entry, err error) {
	defer recovery.Handle(func(failed error) { e, err = nil, failed })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !at.HasRecord {
		return nil, fmt.Errorf("%w, only this: %s", ErrNoRecord, r.known())
	}
	if f.used.Load() > f.limit {
		return nil, f.tooLarge()
	}
	record, err := os.CreateTemp(f.dir, "record-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, record.Close(), os.Remove(record.Name())) }()
	if err := f.client.Record(ctx, at, record); err != nil {
		return nil, err
	}
	if _, err := record.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	path, err := archive.Read(f.dir, &spool.ImportLimits{Runs: 1, Bytes: maxFile}, record)
	if err != nil {
		return nil, fmt.Errorf("the record from the site %s: %w", f.client.URL(), err)
	}
	if name := r.FileStem() + ".db"; filepath.Base(path) != name {
		return nil, fmt.Errorf("the record from the site %s belongs to another run (%s)", f.client.URL(), printable.Text(filepath.Base(path)))
	}
	found, err := spool.FindJob(f.dir, path)
	if err != nil {
		return nil, err
	}
	if f.used.Add(found[0].Size) > f.limit {
		return nil, errors.Join(f.tooLarge(), os.Remove(path))
	}
	return &found[0], nil
}

func (f *fetcher) tooLarge() error {
	return fmt.Errorf("the runs from the site %s are larger than %d MiB: --node selects one of them", f.client.URL(), f.limit>>20)
}

// known returns what the list says of a run.
func (r *FoundRun) known() string {
	text := []string{string(r.State)}
	if r.Outcome != "" {
		text[0] = printable.Text(string(r.Outcome))
	}
	if !r.Start.IsZero() {
		text = append(text, "began "+r.Start.Local().Format("2006-01-02 15:04:05"))
	}
	if !r.End.IsZero() {
		text = append(text, "ended "+r.End.Local().Format("2006-01-02 15:04:05"))
	}
	return strings.Join(text, ", ")
}
