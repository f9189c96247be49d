package lake

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Write writes all runs that have changed since they were written, and removes those that are gone or too old. It may be
// killed at any time: the next call does the rest.
func (l *Lake) Write(ctx context.Context) (done Totals, err error) {
	var gone []site.Changed
	err = l.eachBatch(ctx, l.Registry.GoneRuns, &done, func(batch []site.Changed) error {
		gone = append(gone, batch...)
		return nil
	})
	if err != nil {
		return done, err
	}
	l.isPurged = l.isPurged || len(gone) > 0
	// A writer without its lock marks nothing: another one may have written other versions.
	err = l.eachBatch(ctx, l.Registry.ChangedRuns, &done, func(batch []site.Changed) error {
		if err := l.Check(ctx); err != nil {
			return err
		}
		return l.Registry.MarkWritten(ctx, batch)
	})
	if err == nil {
		err = l.retain(ctx, &done)
	}
	if err == nil {
		err = l.cleanUp(ctx)
	}
	if err != nil {
		return done, err
	}
	return done, l.Registry.ForgetGone(ctx, gone) // after no file has them
}

// pages returns a page of runs of the registry.
type pages func(ctx context.Context, after site.Changed, limit int) ([]site.Changed, error)

// eachBatch writes all runs of the registry, a page at a time, and passes those that are done with.
func (l *Lake) eachBatch(ctx context.Context, next pages, done *Totals, written func([]site.Changed) error) error {
	last := site.Changed{}
	for {
		page, err := next(ctx, last, l.BatchRuns)
		if err != nil || len(page) == 0 {
			return err
		}
		last = page[len(page)-1]
		batch, err := l.writeBatch(ctx, page, done)
		if err != nil {
			return err
		}
		if err := written(batch); err != nil {
			return err
		}
	}
}

// key is the key of a run.
type key struct{ cluster, name string }

// wanted is a run that the lake has to have in its last version, or not at all.
type wanted struct {
	site.Changed
	registrations []site.Changed // the best first
	old           string         // the registration whose row runs has; empty: none
	isRead        bool           // a record could be read
}

func (w *wanted) key() key { return key{w.Cluster, w.Name} }

// compare orders runs by partition, job and time.
func (w *wanted) compare(other *wanted) int {
	a, b := partitionOf(&w.Changed), partitionOf(&other.Changed)
	noJob := uint64(math.MaxUint64) // after all jobs
	return cmp.Or(strings.Compare(a.cluster, b.cluster), a.month.Compare(b.month), cmp.Compare(w.JobID.Or(noJob), other.JobID.Or(noJob)),
		w.Start.Compare(other.Start), strings.Compare(w.Name, other.Name))
}

// want returns the runs that a batch is about, with their registrations. Of a run whose row in the registry is damaged,
// an earlier version stays where it is.
func (l *Lake) want(ctx context.Context, batch []site.Changed, done *Totals) (list []*wanted, err error) {
	known := map[key]bool{}
	for _, c := range batch {
		w := &wanted{Changed: c}
		switch {
		case c.Damage != nil:
			l.Problem(c.ID, c.Damage)
			done.Failed++
			continue
		case known[w.key()]:
			continue
		case !l.isTooOld(c.Start):
			w.registrations, err = l.Registry.Registrations(ctx, c)
			if err != nil {
				return nil, err
			}
		}
		known[w.key()] = true
		w.sort()
		list = append(list, w)
	}
	slices.SortFunc(list, (*wanted).compare)
	return list, nil
}

// findOld finds the rows that runs has of the runs.
func (l *Lake) findOld(ctx context.Context, list []*wanted) error {
	byKey, runs := map[key]*wanted{}, []site.Changed{}
	for _, w := range list {
		byKey[w.key()] = w
		runs = append(runs, w.Changed)
	}
	for _, s := range selectionsOf(runs) {
		err := l.runs.entries(ctx, s, func(e entry) {
			if w := byKey[key{e.cluster, e.name}]; w != nil {
				w.old = e.id
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isKept reports whether the lake keeps the row that it has: no newer version can be read, and the site still
// has the registration.
func (w *wanted) isKept() bool {
	return !w.isRead && slices.ContainsFunc(w.registrations, func(c site.Changed) bool { return c.ID == w.old })
}

// sort puts the best registration first.
func (w *wanted) sort() {
	slices.SortFunc(w.registrations, func(a, b site.Changed) int {
		if copyOf(&a).Better(copyOf(&b)) {
			return -1
		}
		return 1
	})
}

// copyOf is a registration of a run with a record: the lake has no others.
func copyOf(c *site.Changed) *rt.Copy {
	return &rt.Copy{State: c.State, HasRecord: true, IsAtSite: true, Place: c.ID}
}
