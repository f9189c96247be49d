package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/resource-tracker/rt/site"
)

// deleteExpired deletes the objects of a class of a run. With a plain condition of the class SQLite would read
// all objects of the class.
const deleteExpired = "DELETE FROM object WHERE run_id = $1 AND class || '' = $2 AND created < $3 RETURNING bytes, stored"

// Expire removes the objects of a class that are older than before, of at most limit runs that were
// finished before that time. A run that is not finished keeps all of its objects: it may still be
// delivered. Expire returns how many objects it removed, and the names in the object store that no
// object has any more. The caller removes these there, and calls Expire again until n is 0. The run
// keeps what the record and the finish say about it, and its Expired names the class.
func (r *Removals) Expire(ctx context.Context, class site.Class, before time.Time, limit int) (stored []string, n int, err error) {
	ids, err := r.db.texts(ctx, "look for old objects", `SELECT o.run_id FROM object o JOIN run r ON r.id = o.run_id
		WHERE r.finished < $1 AND o.class = $2 AND o.created < $1 ORDER BY o.created LIMIT $3`, micros(before), string(class), limit)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(ids)
	return r.inBatches(ctx, "remove old objects", slices.Compact(ids), func(tx transaction, id string) ([]string, int, error) {
		return r.expireClass(ctx, tx, id, class, before)
	})
}

// expireClass removes the old objects of a class of one run.
func (r *Removals) expireClass(ctx context.Context, tx transaction, id string, class site.Class, before time.Time) (stored []string, n int, err error) {
	run, err := r.runs.lockRun(ctx, tx, id)
	if errors.Is(err, site.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	// A newer object may have replaced the one that was found.
	left, freed, err := deleteObjects(ctx, tx, deleteExpired, id, string(class), micros(before))
	if err != nil || len(left) == 0 {
		return nil, 0, err
	}
	n = len(left)
	if err := markExpired(ctx, tx, id, class, n); err != nil {
		return nil, 0, err
	}
	slices.Sort(left)
	for _, at := range slices.Compact(left) {
		at, err := unnamed(ctx, tx, id, at)
		if err != nil {
			return nil, 0, err
		}
		if at != "" {
			stored = append(stored, at)
		}
	}
	return stored, n, r.quotas.charge(ctx, tx, id, run.owner, -freed)
}

// markExpired stores that objects of a class were removed from a run that stays.
func markExpired(ctx context.Context, tx transaction, id string, class site.Class, n int) error {
	return execute(ctx, tx, `UPDATE run SET objects = objects - $1,
		expired = CASE WHEN expired LIKE CAST($2 AS TEXT) THEN expired ELSE expired || CAST($3 AS TEXT) END WHERE id = $4`,
		n, "%"+string(class)+" %", string(class)+" ", id)
}
