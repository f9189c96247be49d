package registry

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// heldColumns are the columns of scanHeld after the metadata. SQLite has no statistics of the
// tables. With a plain condition of the class it would read all objects of the class (index
// object_age), instead of the run's objects.
const heldColumns = `, r.finish, r.finished, r.record, r.expired, CASE WHEN r.accounted < 0 THEN r.ended END,
	coalesce((SELECT o.bytes FROM object o WHERE o.run_id = r.id AND o.name = '` + site.RecordName + `'), 0),
	coalesce((SELECT o.sha256 FROM object o WHERE o.run_id = r.id AND o.name = '` + site.RecordName + `'), ''),
	(SELECT count(*) FROM object o WHERE o.run_id = r.id AND o.class || '' = '` + string(site.ClassCSV) + `'),
	coalesce((SELECT sum(o.csv_rows) FROM object o WHERE o.run_id = r.id AND o.class || '' IN ('` + string(site.ClassCSV) + `', '` + string(site.ClassInline) + `')), 0)`

// VisibleRuns reads runs as far as a reader may see them.
type VisibleRuns struct {
	db         *database
	objects    *Objects
	pseudonyms pseudonyms
}

// heldRun is a run with counts of its objects.
type heldRun struct {
	site.StoredRun
	csv, rows int64 // number of uploads, and of the rows of uploads and inline data
}

func scanHeld(scan scanFunc) (h heldRun, err error) {
	var held site.Held
	var silentEnd sql.NullInt64
	h.StoredRun, err = scanRun(func(to ...any) error {
		return scan(append(to, &silentEnd, &held.RecordBytes, &held.RecordSHA256, &h.csv, &h.rows)...)
	})
	h.Held = held
	isSilent := silentEnd.Valid && h.Record != nil
	if isSilent {
		h.Record.Ending = endOfSilent(moment(silentEnd.Int64))
	}
	return h, err
}

// isVisible reports whether a reader may see a run. The record of the run decides: a row of
// a job can have runs without a user. A run with neither user nor account in its
// record is for operators only.
func (h heldRun) isVisible(a *site.Access) bool {
	if a == nil {
		return true
	}
	return h.Record != nil && sees(a, h.Record.User, h.Record.Account)
}

// sees reports whether a reader of jobs may see a run with this user and account.
func sees(a *site.Access, user, account string) bool {
	user, account = column(user), column(account)
	isOwn := user != "" && slices.Contains(a.Users, user)
	isOfAccount := account != "" && slices.Contains(a.Accounts, account)
	return isOwn || isOfAccount
}

// OfJob reads at most limit runs of a job after an id, the oldest first, without their metadata. It
// returns those that the reader may see, and the id after which to continue, empty at the end.
func (r *VisibleRuns) OfJob(ctx context.Context, job site.JobRow, access *site.Access, after string, limit int) (runs []site.StoredRun, next string, err error) {
	runs, next, err = r.page(ctx, r.pseudonyms.reach(access), limit, "SELECT r.id, r.owner, r.created, NULL"+heldColumns+` FROM run r WHERE r.id IN
		(SELECT id FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND id > $4 ORDER BY id LIMIT $5) ORDER BY r.id`,
		job.Cluster, int64(job.JobID), job.Generation, after, limit)
	if err != nil {
		return nil, "", fmt.Errorf("list the runs of job %d: %w", job.JobID, r.db.fault(err))
	}
	return runs, next, nil
}

// page returns the runs of a query that a reader may see. next is the id of the last one if there are as many as limit.
func (r *VisibleRuns) page(ctx context.Context, access *site.Access, limit int, query string, args ...any) (runs []site.StoredRun, next string, err error) {
	found, err := collect(ctx, r.db.read, scanHeld, query, args...)
	if len(found) == limit {
		next = found[limit-1].ID
	}
	for _, h := range found {
		if err != nil || !h.isVisible(access) {
			continue
		}
		err = r.countRows(ctx, &h)
		runs = append(runs, h.StoredRun)
	}
	return runs, next, err
}

// Unassigned returns at most limit runs of no job before an id, the newest first, without metadata.
// They have no record, or no job in it. next is the id before which to continue, empty at the end.
// An empty id is after all others.
func (r *VisibleRuns) Unassigned(ctx context.Context, before string, limit int) (runs []site.StoredRun, next string, err error) {
	query, args := unassigned(before, limit)
	runs, next, err = r.page(ctx, nil, limit, query, args...)
	if err != nil {
		return nil, "", fmt.Errorf("list the runs of no job: %w", r.db.fault(err))
	}
	return runs, next, nil
}

func unassigned(before string, limit int) (query string, args []any) {
	c := conditions{}
	c.addCondition("job_id IS NULL")
	if before != "" {
		c.addCondition("id < ?", before)
	}
	query = "SELECT r.id, r.owner, r.created, NULL" + heldColumns + " FROM run r WHERE r.id IN (SELECT id FROM run" + c.clause() +
		" ORDER BY id DESC LIMIT " + c.value(limit) + ") ORDER BY r.id DESC"
	return query, c.args
}

// Get returns a run, or site.ErrNotFound if there is none or the reader may not see it.
func (r *VisibleRuns) Get(ctx context.Context, id string, access *site.Access) (site.StoredRun, error) {
	h, err := scanHeld(r.db.read.QueryRowContext(ctx, "SELECT r.id, r.owner, r.created, r.metadata"+heldColumns+" FROM run r WHERE r.id = $1", id).Scan)
	if err == nil && !h.isVisible(r.pseudonyms.reach(access)) {
		err = sql.ErrNoRows
	}
	if err == nil {
		err = r.countRows(ctx, &h)
	}
	if err != nil {
		return site.StoredRun{}, fmt.Errorf("read run %s: %w", id, r.db.fault(notFound(err)))
	}
	return h.StoredRun, nil
}

// countRows sets the number of rows. Retention may have removed some. A finished run can have
// uploads of an abandoned attempt, which its finish does not name.
func (r *VisibleRuns) countRows(ctx context.Context, h *heldRun) error {
	isExpired := slices.Contains(h.Expired, site.ClassCSV) || slices.Contains(h.Expired, site.ClassInline)
	if isExpired {
		return nil
	}
	h.Held.Rows = rt.Some(h.rows)
	if h.Finish == nil || h.csv == int64(len(h.Finish.Keys)) {
		return nil
	}
	objects, err := r.objects.OfRun(ctx, h.ID)
	if err != nil {
		return err
	}
	rows := int64(0)
	for _, o := range objects {
		isInline := o.Class == site.ClassInline && len(h.Finish.Keys) == 0
		isNamed := o.Class == site.ClassCSV && slices.Contains(h.Finish.Keys, o.Name)
		if isInline || isNamed {
			rows += o.Rows
		}
	}
	h.Held.Rows = rt.Some(rows)
	return nil
}
