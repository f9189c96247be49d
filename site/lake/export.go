package lake

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/resource-tracker/rt/site"
)

// Export writes runs to a store of its own. Config.Registry and Config.Retain are not used.
func Export(ctx context.Context, o Config, runs []site.Changed) (Totals, error) {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b site.Changed) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
	for i := range runs {
		runs[i].Partition = ""
	}
	o.Registry, o.Retain = &fixed{runs: runs}, 0
	l, err := New(o)
	if err != nil {
		return Totals{}, err
	}
	return l.Write(ctx)
}

// fixed lists runs once.
type fixed struct{ runs []site.Changed }

// ChangedRuns implements Registry.
func (f *fixed) ChangedRuns(context.Context, site.Changed, int) (list []site.Changed, err error) {
	list, f.runs = f.runs, nil
	return list, nil
}

// ClaimPartition implements Registry.
func (*fixed) ClaimPartition(context.Context, string, []site.Changed) error { return nil }

// MarkChanged implements Registry.
func (*fixed) MarkChanged(context.Context, string, []site.Changed) error { return nil }

// MarkWritten implements Registry.
func (*fixed) MarkWritten(context.Context, []site.Changed) error { return nil }

// GoneRuns implements Registry.
func (*fixed) GoneRuns(context.Context, string, int) ([]site.Changed, error) { return nil, nil }

// ForgetRun implements Registry.
func (*fixed) ForgetRun(context.Context, string) error { return nil }

// Forget removes the runs of users, also those that the registry has no more, and returns their number. With isDry it
// only counts them. The next Write may write those again that the registry still has. After a partition that cannot be
// read it goes on; the error is then site.ErrDamaged.
func (l *Lake) Forget(ctx context.Context, users []string, isDry bool) (done Totals, err error) {
	if err := l.prepare(); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.temp)) }()
	partitions, err := l.partitions(ctx)
	if err != nil {
		return done, err
	}
	var bad unreadable
	for _, p := range partitions {
		u := &update{partition: p, users: users}
		if isDry {
			err = l.plan(ctx, u, &done)
			done.Removed += len(u.drop)
		} else {
			err = l.update(ctx, u, &done)
		}
		if err := bad.leave(err); err != nil {
			return done, errors.Join(err, bad.err())
		}
	}
	return done, bad.err()
}
