package registry

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// silent is run.accounted of a run that the site has ended, because nothing of it has arrived for a long time. The end is
// an assumption in the columns of the run: its record still says that it is running. A report or a record of the node
// replaces it.
const silent = -1

// endOfSilent is the ending of a silent run, which has ended at a time.
func endOfSilent(at time.Time) rt.Ending {
	return rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeLost, OutcomeSource: "site", End: at}
}

// liveOfRun selects the live run of a run r.
const liveOfRun = "FROM live l WHERE l.owner = r.owner AND l.cluster = r.cluster AND l.node = r.node AND l.stem = r.stem"

// isSilent selects running runs that are silent since $1: no record, rows or report has arrived.
const isSilent = "r.state = '" + string(rt.StateRunning) + "' AND " + isOld + " AND NOT EXISTS (SELECT 1 " + liveOfRun + " AND l.reported >= $1)"

// endSilent ends the runs of running jobs that are silent since a time.
func (r *Live) endSilent(ctx context.Context, before time.Time) error {
	const what = "end silent runs"
	ids, err := r.db.texts(ctx, what, "SELECT r.id FROM job j, run r WHERE j.state = '"+string(rt.StateRunning)+
		"' AND r.cluster = j.cluster AND r.job_id = j.job_id AND r.generation = j.generation AND "+isSilent, micros(before))
	if err != nil {
		return err
	}
	return changeEach(ctx, r.db, what, ids, func(tx transaction, id string) error { return r.endOne(ctx, tx, id, before) })
}

// endOne ends a run if it is still silent.
func (r *Live) endOne(ctx context.Context, tx transaction, id string, before time.Time) error {
	run, err := r.runs.lockRun(ctx, tx, id)
	if errors.Is(err, site.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	// After the lock, as in Removals.expire.
	var started, created, stored, reported int64
	err = tx.QueryRowContext(ctx, "SELECT r.started, r.created, coalesce((SELECT max(a.created) FROM object a WHERE a.run_id = r.id), 0), "+
		"coalesce((SELECT max(l.reported) "+liveOfRun+"), 0) FROM run r WHERE "+isSilent+" AND r.id = $2", micros(before), id).
		Scan(&started, &created, &stored, &reported)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	end := endOfSilent(moment(max(started, created, stored, reported))) // the last arrival; the clock of the node can be ahead
	err = execute(ctx, tx, "UPDATE run SET state = $1, outcome = $2, accounted = $3, ended = $4 WHERE id = $5",
		string(end.State), string(end.Outcome), silent, micros(end.End), id)
	if err == nil { // the next report has a new row, see reopen
		err = execute(ctx, tx, "DELETE FROM live WHERE (owner, cluster, node, stem) = (SELECT owner, cluster, node, stem FROM run WHERE id = $1)", id)
	}
	if err != nil {
		return err
	}
	return r.jobs.refreshJob(ctx, tx, run.job)
}

// reopen makes the run of a report running again, if it has ended as silent. The caller refreshes the job.
func reopen(ctx context.Context, tx transaction, n *newLive) error {
	return execute(ctx, tx, `UPDATE run SET state = $1, outcome = '', accounted = 0, ended = NULL WHERE node = $2 AND started = $3 AND
		job_id IS NOT NULL AND owner = $4 AND cluster = $5 AND stem = $6 AND accounted = $7`,
		string(rt.StateRunning), n.node, micros(n.run.Start), n.owner, n.cluster, n.stem, silent)
}
