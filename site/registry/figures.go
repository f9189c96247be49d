package registry

import (
	"database/sql"
	"encoding/json"
	"math"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// figureColumns are the columns of site.Figures: the pairs in their order, and the marks.
const figureColumns = "core_secs, core_used, gpu_secs, gpu_used, mem_secs, mem_used, core_mark, mem_mark"

var figureNames = strings.Split(figureColumns, ", ")

// figureValues are the columns of site.Figures in the database.
type figureValues struct {
	secs  [6]sql.NullFloat64
	marks [2]report.Mark
}

func valuesOf(f site.Figures) (v figureValues) {
	for i, pair := range f.Pairs() {
		for k, figure := range pair {
			v.secs[2*i+k].Float64, v.secs[2*i+k].Valid = figure.Get()
		}
	}
	v.marks = [...]report.Mark{f.CoreMark, f.MemoryMark}
	return v
}

// arguments are the values of the columns.
func (v *figureValues) arguments() (all []any) {
	for _, secs := range v.secs {
		all = append(all, secs)
	}
	for _, mark := range v.marks {
		all = append(all, string(mark))
	}
	return all
}

func (v figureValues) figures() (f site.Figures) {
	for i, pair := range f.Pairs() {
		for k, figure := range pair {
			if v.secs[2*i+k].Valid {
				figure.Set(v.secs[2*i+k].Float64)
			}
		}
	}
	f.CoreMark, f.MemoryMark = v.marks[0], v.marks[1]
	return f
}

// targets are where Scan stores the values.
func (v *figureValues) targets() (to []any) {
	for i := range v.secs {
		to = append(to, &v.secs[i])
	}
	return append(to, &v.marks[0], &v.marks[1])
}

// summaryColumns are the columns of a run that the summary of its finish sets.
type summaryColumns struct {
	figures    figureValues
	slurmState string
	suspended  sql.NullFloat64
}

func summaryColumnsOf(summary json.RawMessage) (s summaryColumns) {
	f := site.SummaryOf(summary)
	s.figures, s.slurmState = valuesOf(site.FiguresOf(&f)), column(f.SlurmState)
	s.suspended.Float64, s.suspended.Valid = f.SuspendedSecs.Get()
	return s
}

// set continues the SET clause of an UPDATE of the run.
func (s *summaryColumns) set(c *conditions) string {
	text := ", slurm_state = " + c.value(s.slurmState) + ", suspended = " + c.value(s.suspended)
	for i, value := range s.figures.arguments() {
		text += ", " + figureNames[i] + " = " + c.value(value)
	}
	return text
}

// stemOf identifies the run of a whole job. It is NULL for the run of a step: the job's figures
// include the step's figures.
func stemOf(record *rt.Run) sql.NullString {
	isWhole := record.JobID.Valid() && record.Step == ""
	return sql.NullString{String: column(record.FileStem()), Valid: isWhole}
}

// partsOfJob has the parts of a job, and in each row the sums of the figures of the job's runs. The
// runs belong to the owner of the job. A run that was registered twice counts once. A run counts as
// running only if no registration of it has ended. One mark of each kind is left.
const partsOfJob = `SELECT attempt, state, outcome, accounted, started, ended, slurm_state, suspended, ` + figureColumns + ` FROM
	(SELECT attempt, state, outcome, accounted, min(started) AS started, max(ended) AS ended, max(slurm_state) AS slurm_state, max(suspended) AS suspended
		FROM (SELECT attempt, state, outcome, accounted, started, ended, slurm_state, suspended, stem,
			rank() OVER (PARTITION BY stem ORDER BY CASE state WHEN '` + string(rt.StateRunning) + `' THEN 1 ELSE 0 END) AS place
			FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND owner = $4) AS copy
		WHERE place = 1 OR stem IS NULL GROUP BY attempt, state, outcome, accounted) AS part,
	(SELECT sum(core_secs) AS core_secs, sum(core_used) AS core_used, sum(gpu_secs) AS gpu_secs, sum(gpu_used) AS gpu_used, sum(mem_secs) AS mem_secs, sum(mem_used) AS mem_used,
		coalesce(max(core_mark), '') AS core_mark, coalesce(max(mem_mark), '') AS mem_mark
	FROM (SELECT max(core_secs) AS core_secs, max(core_used) AS core_used, max(gpu_secs) AS gpu_secs, max(gpu_used) AS gpu_used,
		max(mem_secs) AS mem_secs, max(mem_used) AS mem_used,
		max(core_mark) AS core_mark, max(mem_mark) AS mem_mark
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
