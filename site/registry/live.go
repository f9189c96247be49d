package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

const (
	// maxLive is the largest number of live runs of one owner.
	maxLive = 100_000
	// keepLive is how long the runs of a node stay, or stay running, that sends nothing.
	keepLive = 6 * time.Hour
	// keepReplaced is how long they stay if the node reports them with another token.
	keepReplaced = 10 * time.Minute
	// wantedFor is how long the readings of a job are wanted after someone has looked at it.
	wantedFor = 5 * time.Minute
)

// Live has the runs that nodes have reported and not delivered yet, one row each. Each has a job, as a delivered run
// has.
type Live struct {
	db   *database
	jobs jobRows
	runs *Runs
}

// liveKey is the primary key of a live run.
type liveKey struct{ owner, cluster, node, stem string }

// where is the WHERE clause of the row.
func (k liveKey) where(c *conditions) string {
	return " WHERE owner = " + c.value(k.owner) + " AND cluster = " + c.value(k.cluster) + " AND node = " + c.value(k.node) + " AND stem = " + c.value(k.stem)
}

func liveKeyOf(owner string, run *rt.Run) liveKey {
	return liveKey{owner, column(run.Cluster), column(run.Node), column(run.FileStem())}
}

// knownLive is a stored live run.
type knownLive struct {
	liveKey
	job    jobKey
	head   string
	wanted int64
}

const liveColumns = "owner, cluster, node, stem, job_id, generation, head, wanted"

func scanLive(scan scanFunc) (k knownLive, err error) {
	err = scan(&k.owner, &k.cluster, &k.node, &k.stem, &k.job.id, &k.job.generation, &k.head, &k.wanted)
	k.job.cluster = k.cluster
	return k, err
}

// newLive is a live run of a report.
type newLive struct {
	liveKey
	run     rt.Run
	head    string
	figures []byte
}

func newLiveOf(owner string, f *site.LiveRun) (n newLive, err error) {
	n.run = f.Summary().Run
	n.liveKey = liveKeyOf(owner, &n.run)
	head, err := site.EncodeJSON(f.Run)
	if err != nil {
		return n, err
	}
	sum := sha256.Sum256(head)
	n.head = hex.EncodeToString(sum[:8])
	n.figures, err = site.EncodeJSON(f)
	return n, err
}

// Put stores the report of a node, which arrived at a time, in the place of the one before. Runs that it does not name
// any more go. It returns the names of those whose readings are wanted. The error is site.ErrQuota if the owner has as
// many live runs as it may have.
func (r *Live) Put(ctx context.Context, owner string, l site.LiveReport, at time.Time) (wanted []string, err error) {
	what := "store the live runs of node " + l.Node
	reported := map[string]newLive{}
	for i := range l.Runs {
		n, err := newLiveOf(owner, &l.Runs[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		reported[n.stem] = n
	}
	err = r.db.change(ctx, what, func(tx transaction) error {
		wanted, err = r.put(ctx, tx, liveKey{owner, column(l.Cluster), column(l.Node), ""}, maps.Clone(reported), at)
		return err
	})
	return wanted, err
}

// put is Put in a transaction. It removes the runs from fresh that are stored already. It locks the rows of jobs in the
// order of their ids: two nodes of the same jobs do not wait for each other.
func (r *Live) put(ctx context.Context, tx transaction, node liveKey, fresh map[string]newLive, at time.Time) (wanted []string, err error) {
	known, err := collect(ctx, tx, scanLive, "SELECT "+liveColumns+" FROM live WHERE owner = $1 AND cluster = $2 AND node = $3 ORDER BY job_id, stem",
		node.owner, node.cluster, node.node)
	if err != nil {
		return nil, err
	}
	for _, old := range known {
		n, isThere := fresh[old.stem]
		delete(fresh, old.stem)
		switch {
		case !isThere:
			err = r.remove(ctx, tx, old)
		case old.head != n.head:
			err = r.putOne(ctx, tx, n, old.job, at)
		default:
			err = execute(ctx, tx, "UPDATE live SET reported = $1, figures = $2 WHERE owner = $3 AND cluster = $4 AND node = $5 AND stem = $6",
				micros(at), n.figures, n.owner, n.cluster, n.node, n.stem)
		}
		if err != nil {
			return nil, err
		}
		if isThere && old.wanted > micros(at) {
			wanted = append(wanted, old.stem)
		}
	}
	for _, n := range slices.SortedFunc(maps.Values(fresh), func(a, b newLive) int { return cmp.Compare(a.run.JobID.Or(0), b.run.JobID.Or(0)) }) {
		if err := r.putOne(ctx, tx, n, jobKey{}, at); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// putOne stores a live run whose job is new or has changed.
func (r *Live) putOne(ctx context.Context, tx transaction, n newLive, old jobKey, at time.Time) error {
	if old == (jobKey{}) {
		var count int64
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM live WHERE owner = $1", n.owner).Scan(&count); err != nil {
			return err
		}
		if count >= maxLive {
			return fmt.Errorf("%w: this token has reported %d runs that are not delivered", site.ErrQuota, count)
		}
		if err := reopen(ctx, tx, &n); err != nil {
			return err
		}
	}
	job, _, err := r.jobs.putJob(ctx, tx, lockedRun{owner: n.owner, job: old}, &n.run)
	if err != nil {
		return err
	}
	of := partOf(&n.run)
	err = execute(ctx, tx, `INSERT INTO live (owner, cluster, node, stem, job_id, generation, attempt, state, outcome, started, ended, head, reported, figures)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (owner, cluster, node, stem) DO UPDATE SET
		job_id = excluded.job_id, generation = excluded.generation, attempt = excluded.attempt, state = excluded.state, outcome = excluded.outcome,
		started = excluded.started, ended = excluded.ended, head = excluded.head, reported = excluded.reported, figures = excluded.figures`,
		n.owner, n.cluster, n.node, n.stem, job.id, job.generation, of.attempt, string(of.state), string(of.outcome), of.started, of.ended, n.head, micros(at), n.figures)
	if err != nil {
		return err
	}
	if old != job {
		if err := r.jobs.refreshJob(ctx, tx, old); err != nil {
			return err
		}
	}
	return r.jobs.refreshJob(ctx, tx, job)
}

// remove removes a live run, and the row of its job if that has no other run.
func (r *Live) remove(ctx context.Context, tx transaction, old knownLive) error {
	var c conditions
	if err := execute(ctx, tx, "DELETE FROM live"+old.where(&c), c.args...); err != nil {
		return err
	}
	return r.jobs.refreshJob(ctx, tx, old.job)
}

// endLive removes the live run of a record that says its end. It returns the job of the live run, the zero value for
// none.
func endLive(ctx context.Context, tx transaction, owner string, record *rt.Run) (job jobKey, err error) {
	isWhole := record.JobID.Valid() && record.Step == ""
	if !isWhole || record.State == rt.StateRunning {
		return job, nil
	}
	var c conditions
	err = tx.QueryRowContext(ctx, "DELETE FROM live"+liveKeyOf(owner, record).where(&c)+" RETURNING cluster, job_id, generation", c.args...).
		Scan(&job.cluster, &job.id, &job.generation)
	if errors.Is(err, sql.ErrNoRows) {
		return jobKey{}, nil
	}
	return job, err
}

// Expire removes the live runs of nodes that have sent no report for keepLive before a time. Runs with a record that
// are running end as lost, if nothing of them has arrived in this time. A live run also goes if another owner has
// reported it since, and not only a moment later: the node has another token.
func (r *Live) Expire(ctx context.Context, at time.Time) error {
	before := at.Add(-keepLive)
	return errors.Join(r.endSilent(ctx, before), r.removeAll(ctx, "reported < $1", micros(before)),
		r.removeAll(ctx, `EXISTS (SELECT 1 FROM live l WHERE l.job_id = live.job_id AND l.cluster = live.cluster AND l.node = live.node AND
			l.stem = live.stem AND l.owner <> live.owner AND l.reported > live.reported + $1)`, keepReplaced.Microseconds()))
}

// Clear removes all live runs that were reported until now. Those that still run are there again with the next report
// of their node.
func (r *Live) Clear(ctx context.Context) error {
	return r.removeAll(ctx, "reported <= $1", micros(time.Now()))
}

func (r *Live) removeAll(ctx context.Context, condition string, value any) error {
	const what = "remove live runs"
	for {
		gone, err := list(ctx, r.db, what, scanLive, "SELECT "+liveColumns+" FROM live WHERE "+condition+" LIMIT 1000", value)
		if err != nil || len(gone) == 0 {
			return err
		}
		err = changeEach(ctx, r.db, what, gone, func(tx transaction, one knownLive) error { return r.remove(ctx, tx, one) })
		if err != nil {
			return err
		}
	}
}

// Want makes the next reports of the nodes of a job answer that its readings are wanted.
func (r *Live) Want(ctx context.Context, job site.JobRow, now time.Time) error {
	if len(job.Live) == 0 {
		return nil
	}
	until := now.Add(wantedFor)
	return r.db.execute(ctx, "want the readings of a job", "UPDATE live SET wanted = $1 WHERE cluster = $2 AND job_id = $3 AND generation = $4 AND wanted < $5",
		micros(until), column(job.Cluster), int64(job.JobID), job.Generation, micros(until.Add(-time.Minute)))
}

// mayBeLive reports whether a job can have live runs: they stay for minutes after its end.
func mayBeLive(j *site.JobRow, now time.Time) bool { return j.IsRunning() || now.Sub(j.End) < keepLive }

// addLive adds to jobs the live runs that a reader may see, their figures and their waste so far. It leaves out those whose delivery is
// complete: a node that got no answer to the finish reports them once more.
func (r *Jobs) addLive(ctx context.Context, jobs []site.JobRow, access *site.Access) error {
	now := time.Now()
	var c conditions
	var ids []string
	at := map[jobKey]*site.JobRow{}
	for i := range jobs {
		j := &jobs[i]
		if mayBeLive(j, now) {
			at[jobKey{j.Cluster, int64(j.JobID), j.Generation}] = j
			ids = append(ids, c.value(int64(j.JobID)))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := collect(ctx, r.db.read, func(scan scanFunc) (l liveRow, err error) {
		return l, scan(&l.owner, &l.job.cluster, &l.job.id, &l.job.generation, &l.figures)
	}, "SELECT owner, cluster, job_id, generation, figures FROM live l WHERE job_id IN ("+strings.Join(ids, ", ")+`) AND
		NOT EXISTS (SELECT 1 FROM run r WHERE r.cluster = l.cluster AND r.job_id = l.job_id AND r.generation = l.generation AND
			r.owner = l.owner AND r.stem = l.stem AND r.finished IS NOT NULL) ORDER BY cluster, node, stem`, c.args...)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if j := at[row.job]; j != nil && j.Owner == row.owner {
			if err := row.addTo(j, access); err != nil {
				return err
			}
			if waste := wasteOf(&j.Balance, *r.prices); waste >= 0 {
				j.Waste.Set(waste)
			}
		}
	}
	return nil
}

// liveRow is a live run with its figures.
type liveRow struct {
	owner   string
	job     jobKey
	figures []byte
}

func (l *liveRow) addTo(j *site.JobRow, access *site.Access) error {
	var run site.LiveRun
	if err := json.Unmarshal(l.figures, &run); err != nil {
		return fmt.Errorf("%w: the figures of a live run: %w", site.ErrDamaged, err)
	}
	if access != nil && !sees(access, run.Run.User, run.Run.Account) {
		return nil
	}
	figures := site.FiguresOf(&run)
	j.Balance.Add(&figures)
	j.Live = append(j.Live, run)
	return nil
}
