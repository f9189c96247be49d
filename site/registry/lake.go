package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// LakeRuns says which runs the lake lacks.
type LakeRuns struct{ db *database }

// ChangedRuns returns at most limit runs, after the given one, by cluster, start and id. Their
// records have changed since the lake read them. Damage is set if a row cannot be decoded. The zero
// value of after is before all runs.
func (r *LakeRuns) ChangedRuns(ctx context.Context, after site.Changed, limit int) ([]site.Changed, error) {
	from := micros(after.Start)
	if after.ID == "" {
		from = -1 << 62
	}
	return list(ctx, r.db, "list the runs that the lake lacks", func(scan scanFunc) (c site.Changed, err error) {
		var started int64
		var record []byte
		if err := scan(&c.ID, &c.Cluster, &started, &c.Changes, &c.Partition, &record); err != nil {
			return c, err
		}
		c.Start = moment(started)
		run, err := decode[rt.Run](record)
		if err != nil {
			c.Damage = fmt.Errorf("%w: its row in the registry: %w", site.ErrDamaged, err) // the other runs are not affected
			return c, nil
		}
		if run != nil {
			c.Name, c.Node, c.JobID, c.State = run.FileStem(), run.Node, run.JobID, run.State
		}
		return c, nil
	}, `SELECT id, cluster, started, changes, coalesce(lake, ''), record FROM run
		WHERE changes > 0 AND (cluster, started, id) > ($1, $2, $3) ORDER BY cluster, started, id LIMIT $4`,
		column(after.Cluster), from, after.ID, limit)
}

// ClaimPartition stores that the lake may have runs in a partition, before the lake writes them
// there. It replaces the partition from ChangedRuns. The runs stay in ChangedRuns.
func (r *LakeRuns) ClaimPartition(ctx context.Context, partition string, runs []site.Changed) error {
	return r.eachRun(ctx, "store the partition of runs in the lake", runs, func(tx transaction, c *site.Changed) error {
		return execute(ctx, tx, "UPDATE run SET lake = $1 WHERE id = $2 AND coalesce(lake, '') = $3", partition, c.ID, c.Partition)
	})
}

// MarkWritten stores that the lake has these versions of runs. A run that has changed meanwhile stays in ChangedRuns.
func (r *LakeRuns) MarkWritten(ctx context.Context, runs []site.Changed) error {
	return r.eachRun(ctx, "store that the lake has runs", runs, func(tx transaction, c *site.Changed) error {
		return execute(ctx, tx, "UPDATE run SET changes = 0 WHERE id = $1 AND changes = $2", c.ID, c.Changes)
	})
}

// MarkChanged puts the other registrations of runs into ChangedRuns, because the runs with these
// ids leave a partition of the lake. Without an id it puts all registrations there. It uses ID,
// Node and Start of the runs. Other runs of the node that began in the same millisecond come too.
func (r *LakeRuns) MarkChanged(ctx context.Context, partition string, runs []site.Changed) error {
	return r.eachRun(ctx, "mark the other registrations of runs for the lake", runs, func(tx transaction, c *site.Changed) error {
		from := micros(c.Start.Truncate(time.Millisecond))
		for _, of := range []string{"job_id IS NOT NULL", "job_id IS NULL"} { // each has an index
			_, err := tx.ExecContext(ctx, `UPDATE run SET changes = changes + 1
				WHERE node = $1 AND started >= $2 AND started < $3 AND lake = $4 AND id <> $5 AND record IS NOT NULL AND `+of,
				column(c.Node), from, from+1000, partition, c.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// eachRun calls change for each run, in transactions of as many runs as the database has in one.
func (r *LakeRuns) eachRun(ctx context.Context, what string, runs []site.Changed, change func(transaction, *site.Changed) error) error {
	for part := range slices.Chunk(runs, r.db.batch) {
		err := r.db.change(ctx, what, func(tx transaction) error {
			for i := range part {
				if err := change(tx, &part[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// GoneRuns returns at most limit runs, after an id, that RemoveRun has removed and the lake may have. Only ID and Partition
// are set.
func (r *LakeRuns) GoneRuns(ctx context.Context, after string, limit int) ([]site.Changed, error) {
	return list(ctx, r.db, "list the runs to remove from the lake", func(scan scanFunc) (c site.Changed, err error) { return c, scan(&c.ID, &c.Partition) },
		"SELECT id, lake FROM lake_gone WHERE id > $1 ORDER BY id LIMIT $2", after, limit)
}

// ForgetRun stores that the lake does not have a run of GoneRuns.
func (r *LakeRuns) ForgetRun(ctx context.Context, id string) error {
	return r.db.execute(ctx, "store that the lake does not have run "+id, "DELETE FROM lake_gone WHERE id = $1", id)
}

// lakeSetting is the name of the setting that Done stores.
const lakeSetting = "lake"

// Done stores when a pass of the lake has ended that has written all runs that can be read.
func (r *LakeRuns) Done(ctx context.Context, at time.Time) error {
	return r.db.putTime(ctx, "store the time of the lake", lakeSetting, at)
}

// State returns what the lake lacks.
func (r *LakeRuns) State(ctx context.Context) (state site.LakeState, err error) {
	at, err := r.db.timeOf(ctx, lakeSetting)
	if err == nil {
		err = r.db.read.QueryRowContext(ctx, "SELECT count(*) FROM run WHERE changes > 0").Scan(&state.Unwritten)
	}
	if err != nil {
		return state, fmt.Errorf("read the state of the lake: %w", r.db.fault(err))
	}
	if !at.IsZero() {
		state.LastSuccess = rt.Some(at)
	}
	return state, nil
}

// rewriteBatch is how many runs one transaction of Rebuild changes.
const rewriteBatch = 1000

// Rebuild puts all runs with a record into ChangedRuns, for a lake that has lost files.
func (r *LakeRuns) Rebuild(ctx context.Context) error {
	for after := ""; ; {
		var last sql.NullString
		err := r.db.change(ctx, "mark the runs for the lake", func(tx transaction) error {
			err := tx.QueryRowContext(ctx, "SELECT max(id) FROM (SELECT id FROM run WHERE id > $1 ORDER BY id LIMIT $2) AS page", after, rewriteBatch).Scan(&last)
			if err != nil || !last.Valid {
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE run SET changes = changes + 1 WHERE id > $1 AND id <= $2 AND record IS NOT NULL", after, last.String)
			return err
		})
		if err != nil || !last.Valid {
			return err
		}
		after = last.String
	}
}

// ErrLocked means that another process has the lock.
var ErrLocked = errors.New("another process has the lock of the lake")

// lakeLock is the key of the lock in PostgreSQL.
const lakeLock = 0x72742d6c616b65

// Lock takes the lock of the lake, which one process has at a time, or returns ErrLocked. check reports
// whether the lock is still held; release ends it. The end of the process ends it too.
func (r *LakeRuns) Lock(ctx context.Context) (check func(context.Context) error, release func() error, err error) {
	check, release, err = r.db.writer.exclusive(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the lake: %w", fault(err))
	}
	return check, release, nil
}

// exclusive takes an advisory lock of a session of its own.
func (w *postgresWriter) exclusive(ctx context.Context) (check func(context.Context) error, release func() error, err error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	var isOurs bool
	err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(lakeLock)).Scan(&isOurs)
	if err == nil && !isOurs {
		err = ErrLocked
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	check = func(ctx context.Context) error {
		var one int
		return conn.QueryRowContext(ctx, "SELECT 1").Scan(&one) // the lock ends with the connection
	}
	release = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(lakeLock))
		return errors.Join(err, conn.Close())
	}
	return check, release, nil
}
