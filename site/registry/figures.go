package registry

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// figureColumns are the columns of report.Balance: the pairs in their order, and the marks.
const figureColumns = "core_secs, core_used, gpu_secs, gpu_used, mem_secs, mem_used, core_mark, mem_mark"

var figureNames = strings.Split(figureColumns, ", ")

// optional is a column that is NULL if its value is not known.
type optional[T any] struct{ *rt.Opt[T] }

// Scan implements sql.Scanner.
func (o optional[T]) Scan(column any) error {
	var n sql.Null[T]
	err := n.Scan(column)
	o.Clear()
	if n.Valid {
		o.Set(n.V)
	}
	return err
}

// Value implements driver.Valuer.
func (o optional[T]) Value() (driver.Value, error) {
	v, isKnown := o.Get()
	return sql.Null[T]{V: v, Valid: isKnown}.Value()
}

// columnsOf returns the columns of figures, for Scan and as the arguments of a query.
func columnsOf(f *report.Balance) (columns []any) {
	for _, pair := range f.Pairs() {
		columns = append(columns, optional[float64]{pair[0]}, optional[float64]{pair[1]})
	}
	return append(columns, &f.CoreMark, &f.MemoryMark)
}

// summaryColumns are the columns of a run that the summary of its finish sets.
type summaryColumns struct {
	figures    report.Balance
	slurmState string
	suspended  rt.Opt[float64]
}

func summaryColumnsOf(summary json.RawMessage) summaryColumns {
	f := site.SummaryOf(summary)
	return summaryColumns{site.FiguresOf(&f), column(f.SlurmState), f.SuspendedSecs}
}

// set continues the SET clause of an UPDATE of the run.
func (s *summaryColumns) set(c *conditions) string {
	text := ", slurm_state = " + c.value(s.slurmState) + ", suspended = " + c.value(optional[float64]{&s.suspended})
	for i, value := range columnsOf(&s.figures) {
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
// running only if no registration of it has ended. One mark of each kind is left. Runs that nodes have
// not delivered are parts without figures: List adds these.
const partsOfJob = `SELECT attempt, state, outcome, accounted, started, ended, slurm_state, suspended, ` + figureColumns + ` FROM
	(SELECT attempt, state, outcome, accounted, min(started) AS started, max(ended) AS ended, max(slurm_state) AS slurm_state, max(suspended) AS suspended
		FROM (SELECT attempt, state, outcome, accounted, started, ended, slurm_state, suspended, stem,
			rank() OVER (PARTITION BY stem ORDER BY CASE state WHEN '` + string(rt.StateRunning) + `' THEN 1 ELSE 0 END) AS place
			FROM (SELECT attempt, state, outcome, accounted, started, ended, slurm_state, suspended, stem
				FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND owner = $4
				UNION ALL SELECT attempt, state, outcome, 0, started, ended, '', NULL, stem
				FROM live WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND owner = $4) AS known) AS copy
		WHERE place = 1 OR stem IS NULL GROUP BY attempt, state, outcome, accounted) AS part,
	(SELECT sum(core_secs) AS core_secs, sum(core_used) AS core_used, sum(gpu_secs) AS gpu_secs, sum(gpu_used) AS gpu_used, sum(mem_secs) AS mem_secs, sum(mem_used) AS mem_used,
		coalesce(max(core_mark), '') AS core_mark, coalesce(max(mem_mark), '') AS mem_mark
	FROM (SELECT max(core_secs) AS core_secs, max(core_used) AS core_used, max(gpu_secs) AS gpu_secs, max(gpu_used) AS gpu_used,
		max(mem_secs) AS mem_secs, max(mem_used) AS mem_used,
		max(core_mark) AS core_mark, max(mem_mark) AS mem_mark
		FROM run WHERE cluster = $1 AND job_id = $2 AND generation = $3 AND owner = $4 AND stem IS NOT NULL GROUP BY stem) AS distinct_run) AS total
	ORDER BY attempt DESC`

// wasteOf is the column waste of a job with these sums.
func wasteOf(sums *report.Balance, p report.Prices) int64 {
	if secs, ok := sums.Waste(p).Get(); ok {
		return int64(min(secs, site.MaxID))
	}
	return -1
}
