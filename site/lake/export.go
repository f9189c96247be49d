package lake

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/resource-tracker/rt/site"
)

// Export writes runs to a store of its own. Options.Registry and Options.Retain are not used.
func Export(ctx context.Context, o Options, runs []site.Changed) (Totals, error) {
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

// Changed implements Registry.
func (f *fixed) Changed(context.Context, site.Changed, int) (list []site.Changed, err error) {
	list, f.runs = f.runs, nil
	return list, nil
}

// Claim implements Registry.
func (*fixed) Claim(context.Context, string, []site.Changed) error { return nil }

// Again implements Registry.
func (*fixed) Again(context.Context, string, []site.Changed) error { return nil }

// Written implements Registry.
func (*fixed) Written(context.Context, []site.Changed) error { return nil }

// Gone implements Registry.
func (*fixed) Gone(context.Context, string, int) ([]site.Changed, error) { return nil, nil }

// Removed implements Registry.
func (*fixed) Removed(context.Context, string) error { return nil }

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
