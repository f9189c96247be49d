package lake

import (
	"context"
	"errors"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/resource-tracker/rt/site"
)

// removeRuns removes the rows of runs from both tables.
func (l *Lake) removeRuns(ctx context.Context, runs []site.Changed, change *exchange) error {
	for _, s := range selectionsOf(runs) {
		if _, err := l.runs.remove(ctx, s, l.FileBytes, &change.runs); err != nil {
			return err
		}
		if _, err := l.samples.remove(ctx, s, l.FileBytes, &change.samples); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes the runs of users, also those that the registry has no more, and returns their number. With isDry it
// only counts them. After it no file and no earlier snapshot has them. The next Write may write those again that the
// registry still has.
func (l *Lake) Forget(ctx context.Context, users []string, isDry bool) (done Totals, err error) {
	var runs []site.Changed
	ofUsers := selection{iceberg.AlwaysTrue{}, iceberg.IsIn(iceberg.Reference("user_name"), users...)}
	err = l.runs.entries(ctx, ofUsers, func(e entry) {
		runs = append(runs, site.Changed{Cluster: e.cluster, Name: e.name, Start: e.started})
	})
	done.Removed = len(runs)
	if err != nil || isDry {
		return done, err
	}
	change := &exchange{isPurge: true}
	if err := l.removeRuns(ctx, runs, change); err != nil {
		return done, err
	}
	if err := l.apply(ctx, change); err != nil {
		return done, err
	}
	l.isPurged = true
	err = l.cleanUp(ctx)
	for t := range l.changes(change) {
		err = errors.Join(err, t.removeOrphans(ctx, 0))
	}
	return done, err
}

// firstDay returns the first moment of the oldest date that stays.
func (l *Lake) firstDay() time.Time { return time.Now().Add(-l.Retain).UTC().Truncate(24 * time.Hour) }

// isTooOld reports whether a run that began then does not stay.
func (l *Lake) isTooOld(start time.Time) bool { return l.Retain > 0 && start.Before(l.firstDay()) }

// retain removes the runs of dates that are too old.
func (l *Lake) retain(ctx context.Context, done *Totals) error {
	if l.Retain <= 0 {
		return nil
	}
	isOld := iceberg.LessThan(iceberg.Reference("started"), iceberg.Timestamp(l.firstDay().UnixMicro()))
	change := &exchange{isPurge: true}
	for t, of := range l.changes(change) {
		n, err := t.remove(ctx, selection{isOld, isOld}, l.FileBytes, of)
		if err != nil {
			return err
		}
		if t == l.runs {
			done.Expired = n
		}
	}
	return l.apply(ctx, change)
}
