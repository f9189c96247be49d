package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// figureColumns are the columns of site.Figures, in the order of its pairs.
const figureColumns = "core_secs, core_used, gpu_secs, gpu_used, mem_secs, mem_used"

// figureValues are the columns of site.Figures in the database.
type figureValues [6]sql.NullFloat64

func valuesOf(f site.Figures) (v figureValues) {
	for i, pair := range f.Pairs() {
		for k, figure := range pair {
			v[2*i+k].Float64, v[2*i+k].Valid = figure.Get()
		}
	}
	return v
}

func (v figureValues) figures() (f site.Figures) {
	for i, pair := range f.Pairs() {
		for k, figure := range pair {
			if v[2*i+k].Valid {
				figure.Set(v[2*i+k].Float64)
			}
		}
	}
	return f
}

// targets are where Scan stores the values.
func (v *figureValues) targets() (to []any) {
	for i := range v {
		to = append(to, &v[i])
	}
	return to
}

// stemOf identifies the run of a whole job. It is NULL for the run of a step: its figures are a part of
// those of the job.
func stemOf(record *rt.Run) sql.NullString {
	isWhole := record.JobID.Valid() && record.Step == ""
	return sql.NullString{String: column(record.FileStem()), Valid: isWhole}
}

// putFigures stores the figures in the summary of a finish, and their sums in the row of the job.
func (r *Registry) putFigures(ctx context.Context, tx transaction, run lockedRun, summary json.RawMessage) error {
	v := valuesOf(site.FiguresOf(summary))
	_, err := tx.ExecContext(ctx, "UPDATE run SET core_secs = $1, core_used = $2, gpu_secs = $3, gpu_used = $4, mem_secs = $5, mem_used = $6 WHERE id = $7",
		v[0], v[1], v[2], v[3], v[4], v[5], run.id)
	if err != nil {
		return err
	}
	return r.refreshJob(ctx, tx, run.job)
}

// sumOfRuns sums the figures of the runs of a job. A run that was registered twice counts once.
const sumOfRuns = `SELECT sum(core_secs), sum(core_used), sum(gpu_secs), sum(gpu_used), sum(mem_secs), sum(mem_used) FROM
	(SELECT max(core_secs) AS core_secs, max(core_used) AS core_used, max(gpu_secs) AS gpu_secs, max(gpu_used) AS gpu_used,
		max(mem_secs) AS mem_secs, max(mem_used) AS mem_used
	FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND stem IS NOT NULL GROUP BY stem) AS distinct_run`

// sumFigures stores the sums of the figures of a job and its waste, if they have changed: the waste is in indexes.
func sumFigures(ctx context.Context, tx transaction, job jobKey) error {
	var v figureValues
	if err := tx.QueryRowContext(ctx, sumOfRuns, job.cluster, job.id, job.generation).Scan(v.targets()...); err != nil {
		return err
	}
	f := v.figures()
	waste := int64(-1)
	if secs, ok := f.WasteSecs().Get(); ok {
		waste = int64(min(math.Round(secs), site.MaxID))
	}
	_, err := tx.ExecContext(ctx, `UPDATE job SET core_secs = $1, core_used = $2, gpu_secs = $3, gpu_used = $4, mem_secs = $5, mem_used = $6, waste = $7
		WHERE cluster = $8 AND job_id = $9 AND generation = $10 AND (waste <> $7 OR core_secs IS DISTINCT FROM $1 OR core_used IS DISTINCT FROM $2
			OR gpu_secs IS DISTINCT FROM $3 OR gpu_used IS DISTINCT FROM $4 OR mem_secs IS DISTINCT FROM $5 OR mem_used IS DISTINCT FROM $6)`, v[0], v[1], v[2], v[3], v[4], v[5], waste, job.cluster, job.id, job.generation)
	return err
}
