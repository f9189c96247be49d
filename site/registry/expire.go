package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt/site"
)

// isOld selects runs that were finished before $1, and unfinished ones without an addition since.
const isOld = `r.created < $1 AND (r.finished < $1 OR r.finished IS NULL AND NOT EXISTS
	(SELECT 1 FROM object a WHERE a.run_id = r.id AND a.created >= $1))`

// Expire removes at most limit objects of a class that are older than before, of runs that were
// finished before that time and of unfinished runs without an addition since. It returns how many
// it removed, and the names in the object store that no object has any more. The caller removes
// these there, and calls Expire again until n is 0. What the record says about its run stays.
func (r *Registry) Expire(ctx context.Context, class site.Class, before time.Time, limit int) (stored []string, n int, err error) {
	rows, err := r.db.QueryContext(ctx, `SELECT o.run_id, o.name FROM object o JOIN run r ON r.id = o.run_id
		WHERE `+isOld+` AND o.class = $2 AND o.created < $1 ORDER BY o.created LIMIT $3`, micros(before), string(class), limit)
	type key struct{ runID, name string }
	old, err := collect(rows, err, func(from row) (k key, err error) { return k, from.Scan(&k.runID, &k.name) })
	if err != nil {
		return nil, 0, fmt.Errorf("look for old objects: %w", fault(err))
	}
	names := map[string][]string{} // of objects, by run
	for _, k := range old {
		names[k.runID] = append(names[k.runID], k.name)
	}
	return r.expire(ctx, sortedKeys(names), before, func(tx transaction, run lockedRun) (stored []string, n int, err error) {
		return r.removeObjects(ctx, tx, run, names[run.id])
	})
}

// ExpireRuns removes at most limit runs, with their objects, that were finished before a time, and
// unfinished ones without an addition since. Its results are those of Expire.
func (r *Registry) ExpireRuns(ctx context.Context, before time.Time, limit int) (stored []string, n int, err error) {
	rows, err := r.db.QueryContext(ctx, "SELECT r.id FROM run r WHERE "+isOld+" AND r.id < $2 ORDER BY r.id LIMIT $3",
		micros(before), before.UTC().Format(idTime), limit)
	ids, err := collect(rows, err, func(from row) (id string, err error) { return id, from.Scan(&id) })
	if err != nil {
		return nil, 0, fmt.Errorf("look for old runs: %w", fault(err))
	}
	return r.expire(ctx, ids, before, func(tx transaction, run lockedRun) (stored []string, n int, err error) {
		stored, err = r.removeRun(ctx, tx, run)
		return stored, 1, err
	})
}

// idTime is the time at the beginning of a run's id.
const idTime = "20060102t150405"

func sortedKeys(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// expire calls remove for the runs with these ids that are still old, in one transaction. It sorts
// them, so that two transactions do not wait for each other.
func (r *Registry) expire(ctx context.Context, ids []string, before time.Time,
	remove func(transaction, lockedRun) (stored []string, n int, err error),
) (stored []string, n int, err error) {
	if len(ids) == 0 {
		return nil, 0, nil
	}
	err = r.change(ctx, "remove what is old", func(tx transaction) error {
		stored, n = nil, 0
		for _, id := range ids {
			run, err := r.lockRun(ctx, tx, id)
			if errors.Is(err, site.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			// After the lock: in PostgreSQL a query does not see what was added while it waited.
			var one string
			err = tx.QueryRowContext(ctx, "SELECT r.id FROM run r WHERE "+isOld+" AND r.id = $2", micros(before), id).Scan(&one)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			names, removed, err := remove(tx, run)
			if err != nil {
				return err
			}
			stored, n = append(stored, names...), n+removed
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return stored, n, nil
}

// removeObjects removes objects of a run.
func (r *Registry) removeObjects(ctx context.Context, tx transaction, run lockedRun, names []string) (stored []string, n int, err error) {
	var freed int64
	var left []string
	for _, name := range names {
		var bytes int64
		var at string
		err := tx.QueryRowContext(ctx, "DELETE FROM object WHERE run_id = $1 AND name = $2 RETURNING bytes, stored", run.id, name).Scan(&bytes, &at)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		n++
		freed += bytes + rowBytes
		left = append(left, at)
	}
	for _, at := range left {
		at, err := unnamed(ctx, tx, run.id, at)
		if err != nil {
			return nil, 0, err
		}
		if at != "" {
			stored = append(stored, at)
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE run SET objects = objects - $1 WHERE id = $2", n, run.id); err != nil {
		return nil, 0, err
	}
	slices.Sort(stored)
	return slices.Compact(stored), n, r.charge(ctx, tx, run.id, run.owner, -freed)
}

// removeRun removes a run with its objects.
func (r *Registry) removeRun(ctx context.Context, tx transaction, run lockedRun) (stored []string, err error) {
	rows, err := tx.QueryContext(ctx, "DELETE FROM object WHERE run_id = $1 RETURNING bytes, stored", run.id)
	freed := run.charged
	stored, err = collect(rows, err, func(from row) (at string, err error) {
		var bytes int64
		err = from.Scan(&bytes, &at)
		freed += bytes + rowBytes
		return at, err
	})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM run WHERE id = $1", run.id); err != nil {
		return nil, err
	}
	if err := r.charge(ctx, tx, run.id, run.owner, -freed); err != nil {
		return nil, err
	}
	if run.jobID.Valid {
		if err := r.refreshJob(ctx, tx, run.cluster.String, run.jobID.Int64); err != nil {
			return nil, err
		}
	}
	slices.Sort(stored)
	stored = slices.Compact(stored)
	return slices.DeleteFunc(stored, func(at string) bool { return at == "" }), nil
}
