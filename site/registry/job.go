package registry

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// jobRows changes the rows of jobs, which are made from the records and finishes of their runs.
type jobRows struct {
	lock   string         // what follows a SELECT of a row that a change begins with
	prices *report.Prices // of the waste; all jobs of the registry have the same
}

// jobKey is the primary key of a job. The zero value means no job.
type jobKey struct {
	cluster        string
	id, generation int64
}

// putRecord stores the record of a run in the row of the run. It also updates the row of the run's job, and returns the
// key of that row.
func (r *Runs) putRecord(ctx context.Context, tx transaction, run lockedRun, record *rt.Run) (job jobKey, err error) {
	text, err := site.EncodeJSON(record)
	if err != nil {
		return job, err
	}
	return r.putEncoded(ctx, tx, run, record, text, putResult{})
}

// putEncoded is putRecord for a record whose JSON is text. It counts and charges put too, the object that putRow stored.
func (r *Runs) putEncoded(ctx context.Context, tx transaction, run lockedRun, record *rt.Run, text []byte, put putResult) (job jobKey, err error) {
	grown := int64(len(text)) - run.record
	if err := r.quotas.charge(ctx, tx, run.id, run.owner, grown+put.bytes); err != nil {
		return job, err
	}
	jobID := jobIDOf(record)
	isNew := false
	if jobID.Valid {
		job, isNew, err = r.jobs.putJob(ctx, tx, run, record)
		if err != nil {
			return job, err
		}
	}
	changes, err := forLake(ctx, tx, run, job, record)
	if err != nil {
		return job, err
	}
	if run.record > 0 { // length of the old record
		if err := putGone(ctx, tx, run.id, record); err != nil {
			return job, err
		}
	}
	of := partOf(record)
	err = execute(ctx, tx, `UPDATE run SET record = $1, cluster = $2, job_id = $3, generation = $4, attempt = $5, state = $6, outcome = $7,
		accounted = $8, started = $9, ended = $10, node = $11, stem = $12, charged = charged + $13, objects = objects + $14, changes = changes + $15, lake = $15 WHERE id = $16`,
		text, column(record.Cluster), jobID, sql.NullInt64{Int64: job.generation, Valid: jobID.Valid}, int64(record.Attempt),
		string(of.state), string(of.outcome), of.accounted, of.started, of.ended, column(record.Node),
		stemOf(record), grown, put.objects, changes, run.id)
	if err != nil {
		return job, err
	}
	reported, err := endLive(ctx, tx, run.owner, record)
	if err != nil {
		return job, err
	}
	for _, old := range []jobKey{run.job, reported} {
		if old == job {
			continue
		}
		if err := r.jobs.refreshJob(ctx, tx, old); err != nil {
			return job, err
		}
	}
	isComplete := isNew && run.finish == nil // the job has this run alone, and no figures
	if isComplete {
		return job, nil
	}
	return job, r.jobs.refreshJob(ctx, tx, job)
}

// forLake returns 1 if the lake has the run, else 0. The lake has no runs of tokens of users. Of
// the runs of nodes with the same name it has only the first owner's.
func forLake(ctx context.Context, tx transaction, run lockedRun, job jobKey, record *rt.Run) (changes int64, err error) {
	if site.IsOwnerOfUser(run.owner) {
		return 0, nil
	}
	stem := stemOf(record)
	isFirst := job.generation <= 1 || !stem.Valid // two owners of nodes share no job
	if isFirst {
		return 1, nil
	}
	var others int64
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM run WHERE cluster = $1 AND job_id = $2 AND generation < $3 AND stem = $4 AND owner <> $5",
		job.cluster, job.id, job.generation, stem, run.owner).Scan(&others)
	if others > 0 {
		return 0, err
	}
	return 1, err
}

// jobIDOf is the id of the job of a record as the database stores it.
func jobIDOf(record *rt.Run) sql.NullInt64 {
	id, ok := record.JobID.Get()
	return sql.NullInt64{Int64: int64(id), Valid: ok}
}

// putJob stores what all runs of a job have in common, as addNames says.
func (j *jobRows) putJob(ctx context.Context, tx transaction, run lockedRun, record *rt.Run) (job jobKey, isNew bool, err error) {
	job, found, err := j.lockJob(ctx, tx, run, record)
	if err != nil || found == nil {
		return job, err == nil, err
	}
	names := found.names
	names.addNames(namesOf(run.owner, record), job.id)
	if names == found.names {
		return job, false, nil
	}
	return job, false, names.replace(ctx, tx, job)
}

// where is the WHERE clause of the row of a job.
func (k jobKey) where(c *conditions) string {
	return " WHERE cluster = " + c.value(k.cluster) + " AND job_id = " + c.value(k.id) + " AND generation = " + c.value(k.generation)
}

// jobNames is what all runs of a job have in common.
type jobNames struct {
	owner  string
	family int64
	text   [len(textColumns)]string
}

// textColumns are the columns of jobNames.text.
var textColumns = [...]string{"username", "account", "partition", "name", "display", "label"}

// nameColumns are the columns of jobNames.
var nameColumns = "owner, family, " + strings.Join(textColumns[:], ", ")

// replace stores the names in the place of those that a job has.
func (n *jobNames) replace(ctx context.Context, tx transaction, job jobKey) error {
	var c conditions
	set := "owner = " + c.value(n.owner) + ", family = " + c.value(n.family)
	for i, name := range textColumns {
		set += ", " + name + " = " + c.value(n.text[i])
	}
	return execute(ctx, tx, "UPDATE job SET "+set+job.where(&c), c.args...)
}

// namesOf returns what a record gives to the row of its job.
func namesOf(owner string, record *rt.Run) jobNames {
	family := record.ArrayJobID.Or(record.HetJobID.Or(record.JobID.Or(0)))
	whole, name, label := record.Identity, record.Meta.JobName, ""
	whole.Step = ""
	if record.ArrayTaskID.Valid() {
		label = whole.Label()
	}
	return jobNames{owner, int64(family), [...]string{column(record.User), column(record.Account), column(record.Partition), folded(name), fit(name, nameMax), label}}
}

// addNames adds the names of a later record of the job, which only the owner of the job says. A name stays if the
// record has none. The nodes become the owner of a job that had runs of its user's token alone.
func (n *jobNames) addNames(later jobNames, jobID int64) {
	if n.owner != later.owner {
		if site.IsOwnerOfUser(n.owner) {
			*n = later
		}
		return
	}
	if later.family != jobID {
		n.family = later.family
	}
	for i, text := range later.text {
		if text != "" {
			n.text[i] = text
		}
	}
}

// columns returns what Scan sets, in the order of nameColumns.
func (n *jobNames) columns() []any {
	list := []any{&n.owner, &n.family}
	for i := range n.text {
		list = append(list, &n.text[i])
	}
	return list
}

// renameJob computes the owner and the names of a job from the records of its runs, in the order of
// registration. So no name of a removed record stays. It reads all of these records.
func renameJob(ctx context.Context, tx transaction, key jobKey) error {
	if key == (jobKey{}) {
		return nil
	}
	list, err := collect(ctx, tx, func(scan scanFunc) (n jobNames, err error) {
		var owner string
		var text []byte
		if err := scan(&owner, &text); err != nil {
			return n, err
		}
		record, err := decode[rt.Run](text)
		isDamaged := err != nil || record == nil
		if isDamaged { // it is reported where the run itself is read
			record = &rt.Run{Identity: rt.Identity{JobID: rt.Some(uint64(key.id))}}
		}
		return namesOf(owner, record), nil
	}, "SELECT owner, record FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 ORDER BY id", key.cluster, key.id, key.generation)
	if err != nil || len(list) == 0 {
		return err
	}
	job := list[0]
	for _, later := range list[1:] {
		job.addNames(later, key.id)
	}
	return job.replace(ctx, tx, key)
}

// part summarises the runs of an attempt of a job with the same state and outcome.
type part struct {
	attempt   int64
	state     rt.State
	outcome   rt.Outcome
	accounted int64
	started   int64
	ended     sql.NullInt64
	// From the summaries of the runs.
	slurmState string
	suspended  rt.Opt[float64]
}

// partOf returns the part with the run of a record alone.
func partOf(record *rt.Run) part {
	p := part{
		attempt: int64(record.Attempt), state: rt.State(column(string(record.State))), outcome: rt.Outcome(column(string(record.Outcome))),
		started: micros(record.Start),
	}
	if record.OutcomeSource == "sacct" {
		p.accounted = 1
	}
	if !record.End.IsZero() {
		p.ended = sql.NullInt64{Int64: micros(record.End), Valid: true}
	}
	return p
}

// refreshJob computes the row of a job from its runs. Without runs it removes the row.
func (j *jobRows) refreshJob(ctx context.Context, tx transaction, key jobKey) error {
	if key == (jobKey{}) {
		return nil
	}
	// The lock makes a second transaction for the same job wait, so that it sees the runs of the first.
	var old part
	var oldSums report.Balance
	var owner string
	err := tx.QueryRowContext(ctx, "SELECT owner, state, outcome, started, ended, "+figureColumns+" FROM job WHERE cluster = $1 AND job_id = $2 AND generation = $3"+j.lock,
		key.cluster, key.id, key.generation).Scan(append([]any{&owner, &old.state, &old.outcome, &old.started, &old.ended}, columnsOf(&oldSums)...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var sums report.Balance
	parts, err := collect(ctx, tx, func(scan scanFunc) (p part, err error) {
		return p, scan(append([]any{&p.attempt, &p.state, &p.outcome, &p.accounted, &p.started, &p.ended, &p.slurmState, optional[float64]{&p.suspended}}, columnsOf(&sums)...)...)
	}, partsOfJob, key.cluster, key.id, key.generation, owner)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return j.leaveJob(ctx, tx, key)
	}
	// A change of a column in an index costs as much as the rest.
	job := summarise(parts)
	var c conditions
	set := "updated = " + c.value(micros(time.Now()))
	isSame := old.state == job.state && old.outcome == job.outcome && old.started == job.started && old.ended == job.ended
	if !isSame {
		set += ", state = " + c.value(string(job.state)) + ", outcome = " + c.value(string(job.outcome)) +
			", started = " + c.value(job.started) + ", ended = " + c.value(job.ended)
	}
	set += ", slurm_state = " + c.value(job.slurmState) + ", suspended = " + c.value(optional[float64]{&job.suspended})
	if sums != oldSums {
		set += ", waste = " + c.value(wasteOf(&sums, *j.prices))
		for i, value := range columnsOf(&sums) {
			set += ", " + figureNames[i] + " = " + c.value(value)
		}
	}
	return execute(ctx, tx, "UPDATE job SET "+set+key.where(&c), c.args...)
}

// leaveJob removes the row of a job whose owner has no run any more, or gives it to the owner of the others.
func (j *jobRows) leaveJob(ctx context.Context, tx transaction, key jobKey) error {
	var others int64
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3", key.cluster, key.id, key.generation).Scan(&others)
	switch {
	case err != nil:
		return err
	case others == 0:
		return execute(ctx, tx, "DELETE FROM job WHERE cluster = $1 AND job_id = $2 AND generation = $3", key.cluster, key.id, key.generation)
	}
	if err := renameJob(ctx, tx, key); err != nil {
		return err
	}
	return j.refreshJob(ctx, tx, key) // the owner has a run now
}

// summarise combines the parts of a job, the newest attempt first. The job starts with its first
// attempt; the newest one decides how it ended. The job is running while it runs on any node.
func summarise(parts []part) part {
	job := parts[0]
	for _, p := range parts {
		job.started = min(job.started, p.started)
		if p.attempt != job.attempt {
			continue
		}
		if p.ended.Int64 > job.ended.Int64 {
			job.ended = p.ended
		}
		if p.suspended.Or(0) > job.suspended.Or(0) {
			job.suspended = p.suspended
		}
		byRank := cmp.Or(cmp.Compare(p.accounted, job.accounted), cmp.Compare(p.outcome.Certainty(), job.outcome.Certainty()))
		if byRank > 0 {
			job.outcome, job.accounted, job.slurmState = p.outcome, p.accounted, p.slurmState
		}
		if p.outcome == job.outcome {
			job.slurmState = cmp.Or(job.slurmState, p.slurmState)
		}
		if p.state == rt.StateRunning || job.state == rt.StateRunning {
			job.state = rt.StateRunning
		}
	}
	if job.state == rt.StateRunning {
		job.outcome, job.ended, job.slurmState = rt.OutcomeNone, sql.NullInt64{}, ""
	}
	return job
}

// Columns are at most this long, in bytes: PostgreSQL limits the entries of an index.
const (
	columnMax = 200
	nameMax   = 600
)

// column makes a text fit for a column: PostgreSQL accepts neither NUL nor invalid UTF-8.
func column(text string) string { return fit(text, columnMax) }

func fit(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// folded is the form of a name in which the search compares it.
func folded(name string) string { return strings.ToLower(fit(name, nameMax)) }
