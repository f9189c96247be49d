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

	"github.com/resource-tracker/rt/site"
)

// windows is how many jobs one call of Jobs examines at most, so that its time has a bound whatever
// the filter is.
type windows struct {
	first int // tried before the others: most filters find enough jobs in few, which costs little
	list  int // in the index job_list, which has all columns of the filters
	other int // in the other indexes
}

var defaultWindows = windows{first: 5_000, list: 50_000, other: 4_000}

// maxValues is the largest number of users or accounts that are searched one after the other, each
// in the index.
const maxValues = 16

// Jobs returns the jobs that a filter selects, the newest first, at most limit of them, and the
// cursor of the next call, which is empty at the end of the list. The cursor of the first call is
// empty; site.ErrCursor means that the cursor is not from Jobs.
//
// One call examines at most 50,000 jobs. If few of them match, it returns fewer than limit jobs,
// or none, with a cursor that continues the search: only an empty cursor means that there are no
// more. There are indexes by id, user, account, outcome, state and partition. The first of these
// in the filter selects the jobs that the call examines, at most 4,000. The search for a part of
// a name has no index of its own. It ignores case.
func (r *Registry) Jobs(ctx context.Context, f site.Filter, after string, limit int) (jobs []site.Job, next string, err error) {
	jobs, next, err = r.page(ctx, f, after, max(limit, 1))
	if err != nil {
		return nil, "", fmt.Errorf("list the jobs: %w", fault(err))
	}
	return jobs, next, nil
}

// place is the position of a job in the list. As text it is the cursor.
type place struct {
	started, jobID int64
	cluster        string
}

func placeOf(j site.Job) place { return place{micros(j.Start), int64(j.JobID), j.Cluster} }

func (p place) cursor() string { return fmt.Sprintf("%d.%d.%x", p.started, p.jobID, p.cluster) }

// cursors matches cursors: the start of a job in microseconds, its id and the bytes of its cluster in
// hexadecimal. The description of the API has the same expression.
var cursors = regexp.MustCompile(`^-?[0-9]{1,18}\.[0-9]{1,18}\.([0-9a-f]{2}){0,200}$`)

func parseCursor(text string) (p place, err error) {
	if !cursors.MatchString(text) {
		return p, site.ErrCursor
	}
	parts := strings.Split(text, ".")
	started, err1 := strconv.ParseInt(parts[0], 10, 64)
	jobID, err2 := strconv.ParseInt(parts[1], 10, 64)
	cluster, err3 := hex.DecodeString(parts[2])
	return place{started, jobID, string(cluster)}, errors.Join(err1, err2, err3)
}

// compare is positive if a comes before b in the list.
func compare(a, b place) int {
	return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.jobID, b.jobID), strings.Compare(a.cluster, b.cluster))
}

func scanPlace(from row) (p place, err error) { return p, from.Scan(&p.started, &p.jobID, &p.cluster) }

func scanJob(from row) (j site.Job, err error) {
	var started int64
	var ended sql.NullInt64
	err = from.Scan(&started, &j.JobID, &j.Cluster, &j.User, &j.Account, &j.Partition, &j.State, &j.Outcome, &ended)
	j.Start = moment(started)
	if ended.Valid {
		j.End = moment(ended.Int64)
	}
	return j, err
}

const (
	placeColumns = "started, job_id, cluster"
	jobColumns   = placeColumns + ", username, account, partition, state, outcome, ended"
	inOrder      = " ORDER BY started DESC, job_id DESC, cluster DESC"
)

// page returns the jobs of one answer, and the cursor of the next one.
func (r *Registry) page(ctx context.Context, f site.Filter, after string, limit int) (jobs []site.Job, next string, err error) {
	var from *place
	if after != "" {
		p, err := parseCursor(after)
		if err != nil {
			return nil, "", err
		}
		from = &p
	}
	var end *place // the newest of the places at which the searches stopped
	for _, one := range r.ranges(f) {
		if from != nil {
			one.add("("+placeColumns+") < (?, ?, ?)", from.started, from.jobID, column(from.cluster))
		}
		found, last, err := r.searchTwice(ctx, one, limit)
		if err != nil {
			return nil, "", err
		}
		jobs = append(jobs, found...)
		isNewer := last != nil && (end == nil || compare(*last, *end) > 0)
		if isNewer {
			end = last
		}
	}
	slices.SortFunc(jobs, func(a, b site.Job) int { return compare(placeOf(b), placeOf(a)) })
	// A job can be in the range of a user and in that of an account.
	jobs = slices.CompactFunc(jobs, func(a, b site.Job) bool { return placeOf(a) == placeOf(b) })
	if end != nil { // older jobs have not all been found
		jobs = slices.DeleteFunc(jobs, func(j site.Job) bool { return compare(placeOf(j), *end) < 0 })
	}
	if len(jobs) > limit {
		jobs = jobs[:limit]
		last := placeOf(jobs[limit-1])
		end = &last
	}
	if end == nil {
		return jobs, "", nil
	}
	return jobs, end.cursor(), nil
}

// searchTwice searches the first jobs of a range, and more of them if that does not find enough.
func (r *Registry) searchTwice(ctx context.Context, one indexRange, limit int) (jobs []site.Job, last *place, err error) {
	for _, window := range []int{min(r.windows.first, one.window), one.window} {
		jobs, last, err = r.search(ctx, one, window, limit)
		isEnough := len(jobs) >= limit || last == nil
		if isEnough || err != nil {
			break
		}
	}
	return jobs, last, err
}

// search returns at most limit jobs of a range that match the rest of its filter, and the place at
// which it stopped, nil at the end of the range.
func (r *Registry) search(ctx context.Context, one indexRange, window, limit int) (jobs []site.Job, last *place, err error) {
	all := conditions{slices.Clone(one.where), slices.Clone(one.args)}
	addOther(&all, one.rest)
	if len(all.where) > len(one.where) {
		last, err = r.lastOfWindow(ctx, one.conditions, window)
		if err != nil {
			return nil, nil, err
		}
	}
	if last != nil {
		all.add("("+placeColumns+") >= (?, ?, ?)", last.started, last.jobID, last.cluster)
	}
	query := "SELECT " + jobColumns + " FROM job" + all.clause() + inOrder + " LIMIT " + all.value(limit+1)
	rows, err := r.db.QueryContext(ctx, query, all.args...)
	jobs, err = collect(rows, err, scanJob)
	if err != nil {
		return nil, nil, err
	}
	if len(jobs) > limit {
		jobs = jobs[:limit]
		end := placeOf(jobs[limit-1])
		last = &end
	}
	return jobs, last, nil
}

// lastOfWindow returns the last job that a search examines, nil if there are no more.
func (r *Registry) lastOfWindow(ctx context.Context, indexed conditions, window int) (*place, error) {
	query := "SELECT " + placeColumns + " FROM job" + indexed.clause() + inOrder + " LIMIT 1 OFFSET " + indexed.value(window-1)
	p, err := scanPlace(r.db.QueryRowContext(ctx, query, indexed.args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &p, err
}
