package registry

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/resource-tracker/rt/site"
)

// Removals removes and rewrites what is stored of runs.
type Removals struct {
	db     *database
	runs   *Runs
	quotas quotas
	jobs   jobRows
}

// isOld selects runs that were finished before $1, and unfinished ones without an addition since.
const isOld = `r.created < $1 AND (r.finished < $1 OR r.finished IS NULL AND NOT EXISTS
	(SELECT 1 FROM object a WHERE a.run_id = r.id AND a.created >= $1))`

// ExpireRuns removes at most limit runs, with their objects, that were finished before a time, and
// unfinished ones without an addition since. Its results are as in Expire.
func (r *Removals) ExpireRuns(ctx context.Context, before time.Time, limit int) (stored []string, n int, err error) {
	ids, err := r.db.texts(ctx, "look for old runs", "SELECT r.id FROM run r WHERE "+isOld+" AND r.id < $2 ORDER BY r.id LIMIT $3",
		micros(before), before.UTC().Format(idTime), limit)
	if err != nil {
		return nil, 0, err
	}
	return r.expire(ctx, ids, before, func(tx transaction, run lockedRun) (stored []string, n int, err error) {
		stored, err = r.removeRun(ctx, tx, run)
		return stored, 1, err
	})
}

// idTime is the time at the beginning of a run's id.
const idTime = "20060102t150405"

// expire calls remove for the runs with these ids that are still old. After an error some of them are removed:
// stored and n are about these.
func (r *Removals) expire(ctx context.Context, ids []string, before time.Time,
	remove func(transaction, lockedRun) (stored []string, n int, err error),
) (stored []string, n int, err error) {
	return r.inBatches(ctx, "remove what is old", ids, func(tx transaction, id string) ([]string, int, error) {
		run, err := r.runs.lockRun(ctx, tx, id)
		if errors.Is(err, site.ErrNotFound) {
			return nil, 0, nil
		}
		if err != nil {
			return nil, 0, err
		}
		// After the lock: in PostgreSQL a query does not see what was added while it waited.
		var one string
		err = tx.QueryRowContext(ctx, "SELECT r.id FROM run r WHERE "+isOld+" AND r.id = $2", micros(before), id).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, 0, nil
		}
		if err != nil {
			return nil, 0, err
		}
		return remove(tx, run)
	})
}

// inBatches calls change for each id, in transactions of as many runs as the database has in one.
// It adds up the durable results.
func (r *Removals) inBatches(ctx context.Context, what string, ids []string,
	change func(tx transaction, id string) (stored []string, n int, err error),
) (stored []string, n int, err error) {
	for batch := range slices.Chunk(ids, r.db.batch) {
		var names []string
		removed := 0
		err := r.db.change(ctx, what, func(tx transaction) error {
			names, removed = nil, 0
			for _, id := range batch {
				some, count, err := change(tx, id)
				if err != nil {
					return err
				}
				names, removed = append(names, some...), removed+count
			}
			return nil
		})
		if err != nil {
			return stored, n, err
		}
		stored, n = append(stored, names...), n+removed
	}
	return stored, n, nil
}

// deleteObjects deletes the objects of a query. It returns their names in the object store, empty for those that the
// registry held, and the bytes that they took of a quota.
func deleteObjects(ctx context.Context, tx transaction, query string, args ...any) (stored []string, freed int64, err error) {
	stored, err = collect(ctx, tx, func(scan scanFunc) (at string, err error) {
		var bytes int64
		err = scan(&bytes, &at)
		freed += bytes + rowBytes
		return at, err
	}, query, args...)
	return stored, freed, err
}

// removeRun removes a run with its objects.
func (r *Removals) removeRun(ctx context.Context, tx transaction, run lockedRun) (stored []string, err error) {
	stored, freed, err := deleteObjects(ctx, tx, "DELETE FROM object WHERE run_id = $1 RETURNING bytes, stored", run.id)
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, tx, "DELETE FROM run WHERE id = $1", run.id); err != nil {
		return nil, err
	}
	if err := r.quotas.charge(ctx, tx, run.id, run.owner, -freed-run.charged); err != nil {
		return nil, err
	}
	if err := r.jobs.refreshJob(ctx, tx, run.job); err != nil {
		return nil, err
	}
	slices.Sort(stored)
	stored = slices.Compact(stored)
	return slices.DeleteFunc(stored, func(at string) bool { return at == "" }), nil
}
