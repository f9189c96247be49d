package registry

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// windows limits how many jobs one call of List examines, so that its time has a bound with every
// filter.
type windows struct {
	list  int // jobs in the index job_list, which has all columns of the filters
	other int // jobs in one of the other indexes
}

var defaultWindows = windows{list: 50_000, other: 4_000}

// maxValues is the largest number of users or accounts that are searched one after the other, each
// in the index.
const maxValues = 16

// Jobs lists jobs and sums their figures.
type Jobs struct {
	db         *database
	pseudonyms pseudonyms
	windows    windows
	prices     *report.Prices
}

// List returns the jobs that a filter selects, in its order, at most limit of them. after is the
// cursor that the call before returned as next; it is empty in the first call. next is empty at the
// end of the list. site.ErrCursor means that after is not from List, or from a list in another order.
//
// One call examines at most 50,000 jobs. If few of them match, it returns fewer than limit jobs, or
// none, with a cursor that continues the search. Only an empty cursor means that there are no more.
//
// A filter by id, user or account uses an index. In a list that is sorted by start, a filter by outcome,
// state or partition does too. In an index a call examines at most 4,000 jobs. If a reader may see
// users and accounts, the call examines 4,000 jobs of each. The search for a part of a name ignores case.
func (r *Jobs) List(ctx context.Context, f site.Filter, after string, limit int) (jobs []site.JobRow, next string, err error) {
	f.Users, f.Access = r.pseudonyms.wanted(f), r.pseudonyms.reach(f.Access)
	jobs, next, err = r.page(ctx, f, after, max(limit, 1))
	if err == nil {
		err = r.addLive(ctx, jobs, f.Access)
	}
	if err != nil {
		return nil, "", fmt.Errorf("list the jobs: %w", r.db.fault(err))
	}
	return jobs, next, nil
}

// place is the position of a job in the list. As text it is the cursor.
type place struct {
	waste          int64 // 0 in lists that are sorted by start
	started, jobID int64
	cluster        string
}

func placeOf(j site.JobRow, by site.Sort) place {
	p := place{0, micros(j.Start), int64(j.JobID), j.Cluster}
	if by == site.ByWaste {
		p.waste = j.Waste.Or(0)
	}
	return p
}

func (p place) cursor(by site.Sort) string {
	text := fmt.Sprintf("%d.%d.%x", p.started, p.jobID, p.cluster)
	if by == site.ByWaste {
		text = fmt.Sprintf("%d.", p.waste) + text
	}
	return text
}

// values returns the values of the columns by which a list is sorted.
func (p place) values(by site.Sort) []any {
	all := []any{p.started, p.jobID, column(p.cluster)}
	if by == site.ByWaste {
		all = append([]any{p.waste}, all...)
	}
	return all
}

// cursors has the expressions for valid cursors. A cursor is the start of a job in microseconds, the
// job's id and the bytes of the cluster in hexadecimal. In lists by waste, the waste comes first. The
// description of the API has both in one expression.
var cursors = map[site.Sort]*regexp.Regexp{
	site.ByStart: regexp.MustCompile(`^-?[0-9]{1,18}\.[0-9]{1,18}\.([0-9a-f]{2}){0,200}$`),
	site.ByWaste: regexp.MustCompile(`^[0-9]{1,18}\.-?[0-9]{1,18}\.[0-9]{1,18}\.([0-9a-f]{2}){0,200}$`),
}

// SortOf returns the order of the list that a cursor is from.
func SortOf(cursor string) site.Sort {
	if cursors[site.ByWaste].MatchString(cursor) {
		return site.ByWaste
	}
	return site.ByStart
}

func parseCursor(text string, by site.Sort) (p place, err error) {
	if !cursors[by].MatchString(text) {
		return p, site.ErrCursor
	}
	parts := strings.Split(text, ".")
	var wrong [4]error
	if by == site.ByWaste {
		p.waste, wrong[0] = strconv.ParseInt(parts[0], 10, 64)
		parts = parts[1:]
	}
	p.started, wrong[1] = strconv.ParseInt(parts[0], 10, 64)
	p.jobID, wrong[2] = strconv.ParseInt(parts[1], 10, 64)
	cluster, err := hex.DecodeString(parts[2])
	p.cluster, wrong[3] = string(cluster), err
	return p, errors.Join(wrong[:]...)
}

// compare is positive if a comes before b in the list, which begins with the largest values.
func compare(a, b place) int {
	return cmp.Or(cmp.Compare(a.waste, b.waste), cmp.Compare(a.started, b.started), cmp.Compare(a.jobID, b.jobID), strings.Compare(a.cluster, b.cluster))
}

func scanJob(scan scanFunc) (j site.JobRow, err error) {
	var started, waste int64
	var ended sql.NullInt64
	to := []any{
		&started, &j.JobID, &j.Cluster, &j.Generation, &j.Owner, &j.User, &j.Account, &j.Partition, &j.Name, &j.Label,
		&j.State, &j.Outcome, &j.SlurmState, optional[float64]{&j.SuspendedSecs}, &ended, &waste,
	}
	err = scan(append(to, columnsOf(&j.Balance)...)...)
	j.Start = moment(started)
	if ended.Valid {
		j.End = moment(ended.Int64)
	}
	if j.Label == "" {
		j.Label = strconv.FormatUint(j.JobID, 10)
	}
	if waste >= 0 {
		j.Waste.Set(waste)
	}
	return j, err
}

const jobColumns = "started, job.job_id, job.cluster, job.generation, owner, username, account, partition, display, label, " +
	"state, outcome, slurm_state, suspended, ended, waste, " + figureColumns

// order is the order of a list: its columns, as text for ORDER BY, and placeholders for their values.
type order struct{ columns, clause, values string }

var orders = map[site.Sort]order{
	site.ByStart: {"started, job_id, cluster", " ORDER BY started DESC, job_id DESC, cluster DESC", "(?, ?, ?)"},
	site.ByWaste: {"waste, started, job_id, cluster", " ORDER BY waste DESC, started DESC, job_id DESC, cluster DESC", "(?, ?, ?, ?)"},
}

// page returns the jobs of one answer, and the cursor of the next one.
func (r *Jobs) page(ctx context.Context, f site.Filter, after string, limit int) (jobs []site.JobRow, next string, err error) {
	var from *place
	by := f.Sort
	if _, isKnown := orders[by]; !isKnown {
		return nil, "", fmt.Errorf("%q is no order of the jobs", by)
	}
	if after != "" {
		p, err := parseCursor(after, by)
		if err != nil {
			return nil, "", err
		}
		from = &p
	}
	var end *place // of the places at which the searches stopped, the first in the list
	for _, one := range r.ranges(f) {
		if from != nil {
			one.addCondition("("+orders[by].columns+") < "+orders[by].values, from.values(by)...)
		}
		found, last, err := r.search(ctx, one, limit)
		if err != nil {
			return nil, "", err
		}
		jobs = append(jobs, found...)
		isFirst := last != nil && (end == nil || compare(*last, *end) > 0)
		if isFirst {
			end = last
		}
	}
	slices.SortFunc(jobs, func(a, b site.JobRow) int { return compare(placeOf(b, by), placeOf(a, by)) })
	// The ranges of a user and of an account can both contain a job.
	jobs = slices.CompactFunc(jobs, func(a, b site.JobRow) bool { return placeOf(a, by) == placeOf(b, by) && a.Generation == b.Generation })
	if end != nil { // the jobs after end may not all have been found
		jobs = slices.DeleteFunc(jobs, func(j site.JobRow) bool { return compare(placeOf(j, by), *end) < 0 })
	}
	if len(jobs) > limit {
		jobs = jobs[:limit]
		last := placeOf(jobs[limit-1], by)
		end = &last
	}
	if end == nil {
		return jobs, "", nil
	}
	return jobs, end.cursor(by), nil
}

// search returns at most limit jobs of a range that match the rest of its filter. last is the place
// at which the search stopped. It is nil at the end of the range.
func (r *Jobs) search(ctx context.Context, one indexRange, limit int) (jobs []site.JobRow, last *place, err error) {
	by := one.rest.Sort
	all := conditions{slices.Clone(one.where), slices.Clone(one.args)}
	addOther(&all, one.rest)
	if len(all.where) > len(one.where) {
		last, err = r.lastOfWindow(ctx, one)
		if err != nil {
			return nil, nil, err
		}
	}
	if last != nil {
		// SQLite uses only one lower bound of a column in an index. It must be the window's, which
		// includes knownWaste.
		all.where = slices.DeleteFunc(all.where, func(condition string) bool { return condition == knownWaste })
		all.addCondition("("+orders[by].columns+") >= "+orders[by].values, last.values(by)...)
	}
	// The inner query reads an index alone.
	inner := "SELECT cluster AS found_cluster, job_id AS found_id, generation AS found_generation FROM job" + all.clause() + orders[by].clause + " LIMIT " + all.value(limit+1)
	query := "SELECT " + jobColumns + " FROM (" + inner + ") AS found, job WHERE job.cluster = found_cluster AND job.job_id = found_id AND job.generation = found_generation"
	jobs, err = collect(ctx, r.db.read, scanJob, query, all.args...)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(jobs, func(a, b site.JobRow) int { return compare(placeOf(b, by), placeOf(a, by)) })
	if len(jobs) > limit {
		jobs = jobs[:limit]
		end := placeOf(jobs[limit-1], by)
		last = &end
	}
	return jobs, last, nil
}

// lastOfWindow returns the place of the last job that a search examines. It is nil if the range ends
// before.
func (r *Jobs) lastOfWindow(ctx context.Context, one indexRange) (*place, error) {
	by := one.rest.Sort
	indexed := conditions{slices.Clone(one.where), slices.Clone(one.args)}
	query := "SELECT " + orders[by].columns + " FROM job" + indexed.clause() + orders[by].clause + " LIMIT 1 OFFSET " + indexed.value(one.window-1)
	var p place
	to := []any{&p.started, &p.jobID, &p.cluster}
	if by == site.ByWaste {
		to = append([]any{&p.waste}, to...)
	}
	err := r.db.read.QueryRowContext(ctx, query, indexed.args...).Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &p, err
}
