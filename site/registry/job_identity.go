package registry

import (
	"context"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// knownJob is the row of a job with the id of a record.
type knownJob struct {
	generation     int64
	names          jobNames
	started, ended int64
}

// lockJob returns the job of a record, and locks its row. If there is none, it makes one with what the record says:
// each later change of the row would cost changes of its indexes. found is nil if the row is new.
func (j *jobRows) lockJob(ctx context.Context, tx transaction, run lockedRun, record *rt.Run) (job jobKey, found *knownJob, err error) {
	job = jobKey{column(record.Cluster), jobIDOf(record).Int64, 1}
	for {
		known, err := collect(ctx, tx, func(scan scanFunc) (k knownJob, err error) {
			return k, scan(append([]any{&k.generation, &k.started, &k.ended}, k.names.columns()...)...)
		}, "SELECT generation, started, coalesce(ended, updated), "+nameColumns+` FROM job
			WHERE cluster = $1 AND job_id = $2 ORDER BY generation`+j.lock, job.cluster, job.id)
		if err != nil {
			return job, nil, err
		}
		found = choose(known, run, record)
		if found != nil {
			job.generation = found.generation
			return job, found, nil
		}
		if len(known) > 0 {
			job.generation = known[len(known)-1].generation + 1
		}
		n, first := namesOf(run.owner, record), summarise([]part{partOf(record)})
		var c conditions
		values := []string{
			c.value(job.cluster), c.value(job.id), c.value(job.generation), c.value(string(first.state)), c.value(string(first.outcome)), c.value(first.started), c.value(first.ended), c.value(micros(time.Now())),
		}
		for _, name := range n.columns() {
			values = append(values, c.value(name))
		}
		result, err := tx.ExecContext(ctx, "INSERT INTO job (cluster, job_id, generation, state, outcome, started, ended, updated, "+
			nameColumns+") VALUES ("+strings.Join(values, ", ")+") ON CONFLICT DO NOTHING", c.args...)
		if err != nil {
			return job, nil, err
		}
		made, err := result.RowsAffected()
		if err != nil || made > 0 {
			return job, nil, err
		}
		// Another transaction has made this row since the query, perhaps for another job.
	}
}

// isOf reports whether a run with this user can be of the job. For a run of another owner, the run
// and the job must have the same known user, and one of the owners is this user. No two owners of
// nodes share a job.
func (k *knownJob) isOf(owner, user string) bool {
	known := k.names.text[0] // the user
	isSame := known == user
	if k.names.owner == owner {
		return isSame || known == "" || user == ""
	}
	isOfUser := site.IsOwnerOfUser(k.names.owner) != site.IsOwnerOfUser(owner)
	return isSame && user != "" && isOfUser
}

// choose returns the row of the job of a record, nil for none. A run stays in its job as long as the user
// is the same.
func choose(known []knownJob, run lockedRun, record *rt.Run) (best *knownJob) {
	old := run.job
	isOld := old.cluster == column(record.Cluster) && old.id == jobIDOf(record).Int64
	user := column(record.User)
	var least int64
	for i := range known {
		k := &known[i]
		if !k.isOf(run.owner, user) {
			continue
		}
		if isOld && k.generation == old.generation {
			return k
		}
		gap := k.gap(record)
		isFar := gap > rt.SameJob.Microseconds() && record.Attempt == 0
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
