package registry

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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

var defaultWindows = windows{first: 5_000, list: 50_000, other: 20_000}

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
// in the filter selects the jobs that the call examines, at most 20,000. The search for a part of
// a name has no index of its own. It ignores case.
func (r *Registry) Jobs(ctx context.Context, f site.Filter, after string, limit int) (jobs []site.Job, next string, err error) {
	keys, next, err := r.page(ctx, f, after, max(limit, 1))
	if err == nil {
		jobs, err = r.load(ctx, keys)
	}
	if err != nil {
		return nil, "", fmt.Errorf("list the jobs: %w", fault(err))
	}
	return jobs, next, nil
}

// place is the position of a job in the list. As JSON in base64 it is the cursor.
type place struct {
	Started int64  `json:"s"`
	JobID   int64  `json:"j"`
	Cluster string `json:"c"`
}

func (p place) cursor() string {
	text, _ := json.Marshal(p) // cannot fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text string) (p place, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return p, site.ErrCursor
	}
	return p, nil
}

// compare is positive if a comes before b in the list.
func compare(a, b place) int {
	return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.JobID, b.JobID), strings.Compare(a.Cluster, b.Cluster))
}

func scanPlace(from row) (p place, err error) { return p, from.Scan(&p.Started, &p.JobID, &p.Cluster) }

const (
	placeColumns = "started, job_id, cluster"
	inOrder      = " ORDER BY started DESC, job_id DESC, cluster DESC"
)

// page returns the places of the jobs of one answer, and the cursor of the next one.
func (r *Registry) page(ctx context.Context, f site.Filter, after string, limit int) (keys []place, next string, err error) {
	var from *place
	if after != "" {
		p, err := parseCursor(after)
		if err != nil {
			return nil, "", err
		}
		from = &p
	}
	var end *place // the newest of the places at which the searches stopped
	ranges, rest := r.ranges(f)
	for _, one := range ranges {
		if from != nil {
			one.add("("+placeColumns+") < (?, ?, ?)", from.Started, from.JobID, column(from.Cluster))
		}
		found, last, err := r.searchTwice(ctx, one, rest, limit)
		if err != nil {
			return nil, "", err
		}
		keys = append(keys, found...)
		isNewer := last != nil && (end == nil || compare(*last, *end) > 0)
		if isNewer {
			end = last
		}
	}
	slices.SortFunc(keys, func(a, b place) int { return compare(b, a) })
	if end != nil { // older jobs have not all been found
		keys = slices.DeleteFunc(keys, func(p place) bool { return compare(p, *end) < 0 })
	}
	if len(keys) > limit {
		keys = keys[:limit]
		end = &keys[limit-1]
	}
	if end == nil {
		return keys, "", nil
	}
	return keys, end.cursor(), nil
}

// searchTwice searches the first jobs of a range, and more of them if that does not find enough.
func (r *Registry) searchTwice(ctx context.Context, one indexRange, rest site.Filter, limit int) (keys []place, last *place, err error) {
	for _, window := range []int{min(r.windows.first, one.window), one.window} {
		keys, last, err = r.search(ctx, one, rest, window, limit)
		isEnough := len(keys) >= limit || last == nil
		if isEnough || err != nil {
			break
		}
	}
	return keys, last, err
}

// search returns at most limit jobs of a range that rest selects, and the place at which it
// stopped, nil at the end of the range.
func (r *Registry) search(ctx context.Context, one indexRange, rest site.Filter, window, limit int) (keys []place, last *place, err error) {
	all := conditions{slices.Clone(one.where), slices.Clone(one.args)}
	addOther(&all, rest)
	if len(all.where) > len(one.where) {
		last, err = r.lastOfWindow(ctx, one.conditions, window)
		if err != nil {
			return nil, nil, err
		}
	}
	if last != nil {
		all.add("("+placeColumns+") >= (?, ?, ?)", last.Started, last.JobID, last.Cluster)
	}
	query := "SELECT " + placeColumns + " FROM job" + all.clause() + inOrder + " LIMIT " + all.value(limit+1)
	rows, err := r.db.QueryContext(ctx, query, all.args...)
	keys, err = collect(rows, err, scanPlace)
	if err != nil {
		return nil, nil, err
	}
	if len(keys) > limit {
		keys = keys[:limit]
		last = &keys[limit-1]
	}
	return keys, last, nil
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

// conditions builds the WHERE clause of a query. Values are parameters, never text.
type conditions struct {
	where []string
	args  []any
}

// value adds a parameter and returns its name.
func (c *conditions) value(v any) string {
	c.args = append(c.args, v)
	return "$" + strconv.Itoa(len(c.args))
}

// add adds a condition, in which each ? stands for the next value.
func (c *conditions) add(condition string, values ...any) {
	for _, v := range values {
		condition = strings.Replace(condition, "?", c.value(v), 1)
	}
	c.where = append(c.where, condition)
}

// clause returns the clause.
func (c *conditions) clause() string {
	if len(c.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.where, " AND ")
}

// indexRange is a range of an index in the order of the list.
type indexRange struct {
	conditions
	window int // how many of its jobs a call examines
}

// ranges returns the ranges in which the jobs of a filter are, and the filter without the
// conditions of the ranges.
func (r *Registry) ranges(f site.Filter) (all []indexRange, rest site.Filter) {
	rest = f
	add := func(condition string, window int, values ...any) {
		one := indexRange{window: window}
		if condition != "" {
			one.add(condition, values...)
		}
		if !f.Until.IsZero() {
			one.add("started < ?", micros(f.Until))
		}
		all = append(all, one)
	}
	if id, ok := f.JobID.Get(); ok {
		add("(job_id = ? OR family = ?)", r.windows.other, int64(id), int64(id))
		return all, rest
	}
	for _, index := range []struct {
		column string
		values []string
		clear  func()
	}{
		{"username", f.Users, func() { rest.Users = nil }},
		{"account", f.Accounts, func() { rest.Accounts = nil }},
		{"outcome", some(f.Outcome), func() { rest.Outcome = "" }},
		{"state", some(string(f.State)), func() { rest.State = "" }},
		{"partition", some(f.Partition), func() { rest.Partition = "" }},
	} {
		values := make([]string, len(index.values))
		for i, v := range index.values {
			values[i] = column(v)
		}
		slices.Sort(values)
		values = slices.Compact(values)
		hasIndex := len(values) > 0 && len(values) <= maxValues
		if !hasIndex {
			continue
		}
		for _, v := range values {
			add(index.column+" = ?", max(1, r.windows.other/len(values)), v)
		}
		index.clear()
		return all, rest
	}
	add("", r.windows.list)
	return all, rest
}

// addOther adds the conditions of a filter that the rows of the index are compared with. The
// concatenations keep the database from another index.
func addOther(c *conditions, f site.Filter) {
	for _, one := range []struct {
		column string
		values []string
	}{{"username", f.Users}, {"account", f.Accounts}, {"cluster", some(f.Cluster)}, {"partition", some(f.Partition)},
		{"outcome", some(f.Outcome)}, {"state", some(string(f.State))}} {
		if len(one.values) == 0 {
			continue
		}
		names := make([]string, len(one.values))
		for i, v := range one.values {
			names[i] = c.value(column(v))
		}
		c.where = append(c.where, one.column+" || '' IN ("+strings.Join(names, ", ")+")")
	}
	if f.Name != "" {
		c.add(`name LIKE ? ESCAPE '\'`, "%"+likeEscapes.Replace(folded(f.Name))+"%")
	}
	if !f.Since.IsZero() {
		c.add("(ended IS NULL OR ended >= ?)", micros(f.Since))
	}
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// some returns a list of one value, or none if the value is empty.
func some(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// load returns jobs with their runs, in the order of the keys.
func (r *Registry) load(ctx context.Context, keys []place) ([]site.Job, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	jobs := make([]site.Job, len(keys))
	for i, key := range keys {
		rows, err := r.db.QueryContext(ctx, "SELECT "+runColumns+" FROM run WHERE cluster = $1 AND job_id = $2", key.Cluster, key.JobID)
		runs, err := collect(rows, err, scanRun)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(runs, func(a, b site.Run) int { return strings.Compare(a.ID, b.ID) })
		jobs[i] = site.Job{Cluster: key.Cluster, JobID: uint64(key.JobID), Runs: runs}
	}
	return jobs, nil
}
