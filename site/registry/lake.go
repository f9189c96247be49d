package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

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
	return list(ctx, r.db, "list the runs that the lake lacks", scanChanged, `SELECT id, cluster, started, changes, record FROM run
		WHERE changes > 0 AND (cluster, started, id) > ($1, $2, $3) ORDER BY cluster, started, id LIMIT $4`,
		column(after.Cluster), from, after.ID, limit)
}

func scanChanged(scan scanFunc) (c site.Changed, err error) {
	var started int64
	var record []byte
	if err := scan(&c.ID, &c.Cluster, &started, &c.Changes, &record); err != nil {
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
}

// Registrations returns all registrations of a run that the lake may have. It uses Cluster, Node, Start, Name and
// JobID of the run.
func (r *LakeRuns) Registrations(ctx context.Context, run site.Changed) ([]site.Changed, error) {
	from := micros(run.Start.Truncate(time.Millisecond))
	of := "job_id IS NULL" // each has an index
	if run.JobID.Valid() {
		of = "job_id IS NOT NULL"
	}
	found, err := list(ctx, r.db, "list the registrations of a run", scanChanged, `SELECT id, cluster, started, changes, record FROM run
		WHERE node = $1 AND started >= $2 AND started < $3 AND lake > 0 AND record IS NOT NULL AND `+of,
		column(run.Node), from, from+1000)
	// Others of the node may have begun in the same millisecond.
	return slices.DeleteFunc(found, func(c site.Changed) bool {
		return c.Damage != nil || c.Cluster != column(run.Cluster) || c.Name != run.Name
	}), err
}

// MarkWritten stores that the lake has these versions of runs. A run that has changed meanwhile stays in ChangedRuns.
func (r *LakeRuns) MarkWritten(ctx context.Context, runs []site.Changed) error {
	return changeEach(ctx, r.db, "store that the lake has runs", runs, func(tx transaction, c site.Changed) error {
		return execute(ctx, tx, "UPDATE run SET changes = 0 WHERE id = $1 AND changes = $2", c.ID, c.Changes)
	})
}

// GoneRuns returns at most limit runs, after the given one, that the lake may have. RemoveRun has removed them, or
// their records have other names now.
func (r *LakeRuns) GoneRuns(ctx context.Context, after site.Changed, limit int) ([]site.Changed, error) {
	return list(ctx, r.db, "list the runs to remove from the lake", func(scan scanFunc) (c site.Changed, err error) {
		var started int64
		var job sql.NullInt64
		err = scan(&c.ID, &c.Name, &c.Cluster, &c.Node, &started, &job)
		c.Start = moment(started)
		if job.Valid {
			c.JobID = rt.Some(uint64(job.Int64))
		}
		return c, err
	}, "SELECT id, name, cluster, node, started, job_id FROM lake_gone WHERE (id, name) > ($1, $2) ORDER BY id, name LIMIT $3",
		after.ID, after.Name, limit)
}

// ForgetGone stores that the lake does not have runs of GoneRuns.
func (r *LakeRuns) ForgetGone(ctx context.Context, runs []site.Changed) error {
	return changeEach(ctx, r.db, "store that the lake does not have runs", runs, func(tx transaction, c site.Changed) error {
		return execute(ctx, tx, "DELETE FROM lake_gone WHERE id = $1 AND name = $2", c.ID, c.Name)
	})
}

// putGone adds a run to GoneRuns if its next record, nil for none, has another name, and a lake may have it.
func putGone(ctx context.Context, tx transaction, id string, next *rt.Run) error {
	var text []byte
	err := tx.QueryRowContext(ctx, "SELECT record FROM run WHERE id = $1 AND lake > 0 AND record IS NOT NULL AND EXISTS (SELECT 1 FROM setting WHERE name = $2)",
		id, lakeBegun).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	run, err := decode[rt.Run](text)
	if err != nil || run == nil {
		return nil // a damaged row has no name: its row in the lake is found by its user
	}
	isSame := next != nil && next.Cluster == run.Cluster && next.FileStem() == run.FileStem()
	if isSame {
		return nil
	}
	return execute(ctx, tx, "INSERT INTO lake_gone (id, name, cluster, node, started, job_id) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
		id, run.FileStem(), column(run.Cluster), column(run.Node), micros(run.Start), jobIDOf(run))
}

// lakeBegun is the name of the setting that Begin stores.
const lakeBegun = "lake begun"

// Begin stores that there is a lake, before the first pass.
func (r *LakeRuns) Begin(ctx context.Context) error {
	return r.db.putTime(ctx, "store that there is a lake", lakeBegun, time.Now())
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

// Rebuild puts all runs that the lake may have into ChangedRuns, for a lake that has lost files.
func (r *LakeRuns) Rebuild(ctx context.Context) error {
	for after := ""; ; {
		var last sql.NullString
		err := r.db.change(ctx, "mark the runs for the lake", func(tx transaction) error {
			err := tx.QueryRowContext(ctx, "SELECT max(id) FROM (SELECT id FROM run WHERE id > $1 ORDER BY id LIMIT $2) AS page", after, rewriteBatch).Scan(&last)
			if err != nil || !last.Valid {
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE run SET changes = changes + 1 WHERE id > $1 AND id <= $2 AND lake > 0", after, last.String)
			return err
		})
		if err != nil || !last.Valid {
			return err
		}
		after = last.String
	}
}

// OpenDatabase opens the database once more, for the catalog of the lake, which has tables of its own there.
func (r *Registry) OpenDatabase() (db *sql.DB, isPostgres bool, err error) {
	db, isPostgres, err = r.db.writer.another()
	if err != nil {
		return nil, false, fmt.Errorf("open the database for the catalog of the lake: %w", err)
	}
	return db, isPostgres, nil
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
		return nil, nil, fmt.Errorf("lock the lake: %w", r.db.fault(err))
	}
	return check, release, nil
}

// another opens the database once more.
func (w *postgresWriter) another() (*sql.DB, bool, error) { return stdlib.OpenDB(*w.conf), true, nil }

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
