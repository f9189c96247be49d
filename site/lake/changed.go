package lake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt/site"
)

// writeChanged writes the runs that the registry lists, one partition after the other.
func (l *Lake) writeChanged(ctx context.Context, bad *unreadable, done *Totals) error {
	var group []site.Changed // of one partition
	last := site.Changed{}
	for {
		page, err := l.Registry.ChangedRuns(ctx, last, pageRuns)
		if err != nil {
			return err
		}
		for _, c := range page {
			last = c
			if c.Damage != nil {
				if err := l.leaveDamaged(ctx, c, done); err != nil {
					return err
				}
				continue
			}
			isOther := len(group) > 0 && PartitionOf(group[0].Cluster, group[0].Start) != PartitionOf(c.Cluster, c.Start)
			if isOther {
				if err := bad.leave(l.writeGroup(ctx, group, done)); err != nil {
					return err
				}
				group = group[:0]
			}
			group = append(group, c)
		}
		if len(page) == 0 {
			break
		}
	}
	if len(group) == 0 {
		return nil
	}
	return bad.leave(l.writeGroup(ctx, group, done))
}

// leaveDamaged reports a run with a damaged row in the registry. An earlier version stays where it is.
func (l *Lake) leaveDamaged(ctx context.Context, c site.Changed, done *Totals) error {
	l.Problem(c.ID, c.Damage)
	done.Failed++
	return l.written(ctx, []site.Changed{c})
}

// writeGroup writes the changed runs of a partition. Runs that were in another one leave it first, so that none
// is there twice. The registry has at each moment the only partition that can have a run: it is changed between the two.
func (l *Lake) writeGroup(ctx context.Context, group []site.Changed, done *Totals) error {
	partition := PartitionOf(group[0].Cluster, group[0].Start)
	isMoved := func(c *site.Changed) bool { return c.Partition != "" && c.Partition != partition }
	group, err := l.readable(ctx, group, isMoved, done)
	if err != nil {
		return err
	}
	moved := map[string]ids{}
	var fresh []site.Changed
	for _, c := range group {
		if isMoved(&c) {
			moved[c.Partition] = moved[c.Partition].with(c.ID)
		}
		if c.Partition != partition {
			fresh = append(fresh, c)
		}
	}
	for from, runs := range moved {
		if err := l.update(ctx, &update{partition: from, remove: runs}, done); err != nil {
			return err
		}
	}
	switch {
	case len(group) == 0:
		return nil
	case l.isExpired(partition, time.Now()):
		return l.written(ctx, group)
	}
	if err := l.Registry.ClaimPartition(ctx, partition, fresh); err != nil {
		return err
	}
	return l.update(ctx, &update{partition: partition, changed: group}, done)
}

// readable returns the runs of a group whose record can be read or which stay in their place. For
// the others the old place keeps the earlier version.
func (l *Lake) readable(ctx context.Context, group []site.Changed, leaves func(*site.Changed) bool, done *Totals) (rest []site.Changed, err error) {
	for _, c := range group {
		if !leaves(&c) {
			rest = append(rest, c)
			continue
		}
		run, isTried, err := l.decode(ctx, c.ID, done)
		switch {
		case err != nil:
			return nil, err
		case run != nil:
			err = run.Close()
			rest = append(rest, c)
		case isTried:
			err = l.written(ctx, []site.Changed{c})
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// written stores which versions of runs are done with. A writer without its lock does not: another one may have
// written other versions.
func (l *Lake) written(ctx context.Context, runs []site.Changed) error {
	if len(runs) == 0 {
		return nil
	}
	if err := l.Check(ctx); err != nil {
		return fmt.Errorf("the lake may have another writer: %w", err)
	}
	return l.Registry.MarkWritten(ctx, runs)
}

// decode reads the record of a run. If there is none, or it is damaged or absent, run is nil.
// isTried reports whether the next pass does not try the run again.
func (l *Lake) decode(ctx context.Context, id string, done *Totals) (run *DecodedRun, isTried bool, err error) {
	d, isAhead := l.ahead.take(id)
	if !isAhead {
		d.run, d.err = l.Decode(ctx, id)
	}
	run, err = d.run, d.err
	isAbsent := errors.Is(err, ErrAbsent)
	switch {
	case err == nil:
		return run, true, nil
	case errors.Is(err, site.ErrNotFound):
		return nil, true, nil
	case isAbsent, errors.Is(err, site.ErrDamaged):
		l.Problem(id, err)
		done.Failed++
		return nil, !isAbsent, nil
	}
	return nil, false, fmt.Errorf("run %s: %w", id, err)
}
