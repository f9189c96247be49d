package registry

import (
	"context"
	"time"

	"github.com/resource-tracker/rt"
)

// sameJob is the longest time between two runs of one job. Slurm uses the ids of jobs again. A run of the same
// user that is farther away is of another job, unless it is a later attempt: a job can be held for months
// before it is requeued.
const sameJob = 7 * 24 * time.Hour

// knownJob is the row of a job with the id of a record.
type knownJob struct {
	generation     int64
	user           string
	started, ended int64
}

// lockJob returns the job of a record, and locks its row. If there is none, it makes one with what the record says:
// each later change of the row would cost changes of its indexes.
func (r *Registry) lockJob(ctx context.Context, tx transaction, run lockedRun, record *rt.Run) (job jobKey, isNew bool, err error) {
	job = jobKey{column(record.Cluster), jobIDOf(record).Int64, 1}
	for {
		rows, err := tx.QueryContext(ctx, `SELECT generation, username, started, coalesce(ended, updated) FROM job
			WHERE cluster = $1 AND job_id = $2 ORDER BY generation`+r.writer.lock(), job.cluster, job.id)
		known, err := collect(rows, err, func(from row) (k knownJob, err error) {
			return k, from.Scan(&k.generation, &k.user, &k.started, &k.ended)
		})
		if err != nil {
			return job, false, err
		}
		if found := choose(known, run.job, record); found != nil {
			job.generation = found.generation
			return job, false, nil
		}
		if len(known) > 0 {
			job.generation = known[len(known)-1].generation + 1
		}
		n, first := namesOf(run.owner, record), summarise([]part{partOf(record)})
		result, err := tx.ExecContext(ctx, `INSERT INTO job (cluster, job_id, generation, owner, family, username, account, partition, name, state, outcome, started, ended, updated)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING`,
			job.cluster, job.id, job.generation, run.owner, n.family, n.text[0], n.text[1], n.text[2], n.text[3],
			string(first.state), string(first.outcome), first.started, first.ended, micros(time.Now()))
		if err != nil {
			return job, false, err
		}
		made, err := result.RowsAffected()
		if err != nil || made > 0 {
			return job, made > 0, err
		}
		// Another transaction has made this row since the query. It can be that of another job.
	}
}

// choose returns the row of the job of a record, nil for none. A run stays in its job as long as the user
// is the same.
func choose(known []knownJob, old jobKey, record *rt.Run) (best *knownJob) {
	isOld := old.cluster == column(record.Cluster) && old.id == jobIDOf(record).Int64
	user := column(record.User)
	var least int64
	for i := range known {
		k := &known[i]
		isOther := k.user != user && k.user != "" && user != ""
		if isOther {
			continue
		}
		if isOld && k.generation == old.generation {
			return k
		}
		gap := k.gap(record)
		isFar := gap > sameJob.Microseconds() && record.Attempt == 0
		if isFar {
			continue
		}
		if best == nil || gap < least {
			best, least = k, gap
		}
	}
	return best
}

// gap is the time, in microseconds, between a job and a run that is not in it; 0 if they overlap.
func (k *knownJob) gap(record *rt.Run) int64 {
	started, ended := micros(record.Start), micros(record.Start)
	if !record.End.IsZero() {
		ended = micros(record.End)
	}
	return max(0, started-k.ended, k.started-ended)
}
