package registry

import (
	"database/sql"
	"math"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// figureColumns are the columns of site.Figures, in the order of its pairs.
const figureColumns = "core_secs, core_used, gpu_secs, gpu_used, mem_secs, mem_used"

var figureNames = strings.Split(figureColumns, ", ")

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

// partsOfJob has the parts of a job, and in each row the sums of the figures of its runs. The runs belong to the
// owner of the job; one that was registered twice counts once.
const partsOfJob = `SELECT attempt, state, outcome, accounted, started, ended, core_secs, core_used, gpu_secs, gpu_used, mem_secs, mem_used FROM
	(SELECT attempt, state, outcome, accounted, min(started) AS started, max(ended) AS ended
		FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND owner = $4 GROUP BY attempt, state, outcome, accounted) AS part,
	(SELECT sum(core_secs) AS core_secs, sum(core_used) AS core_used, sum(gpu_secs) AS gpu_secs, sum(gpu_used) AS gpu_used, sum(mem_secs) AS mem_secs, sum(mem_used) AS mem_used
	FROM (SELECT max(core_secs) AS core_secs, max(core_used) AS core_used, max(gpu_secs) AS gpu_secs, max(gpu_used) AS gpu_used,
		max(mem_secs) AS mem_secs, max(mem_used) AS mem_used
		FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND owner = $4 AND stem IS NOT NULL GROUP BY stem) AS distinct_run) AS total
	ORDER BY attempt DESC`

// wasteOf is the column waste of a job with these sums.
func wasteOf(sums figureValues) int64 {
	f := sums.figures()
	if secs, ok := f.WasteSecs().Get(); ok {
		return int64(min(math.Round(secs), site.MaxID))
	}
	return -1
}
