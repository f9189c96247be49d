package registry

import (
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

var defaultWindows = windows{first: 5_000, list: 250_000, other: 25_000}

// Jobs returns the jobs that a filter selects, the newest first, at most limit of them, and the
// cursor of the next call, which is empty at the end of the list. The cursor of the first call is
// empty; site.ErrCursor means that the cursor is not from Jobs.
//
// One call examines at most 250,000 jobs. If few of them match, it returns fewer than limit jobs,
// or none, with a cursor that continues the search: only an empty cursor means that there are no
// more. The jobs of one user, of one account and with one id have indexes: a call examines at most
// 25,000 of these jobs, and no others. The search for a part of a name has no index of its own. It
// ignores case.
func (r *Registry) Jobs(ctx context.Context, f site.Filter, after string, limit int) (jobs []site.Job, next string, err error) {
	keys, next, err := r.page(ctx, f, after, limit)
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

func scanPlace(from row) (p place, err error) { return p, from.Scan(&p.Started, &p.JobID, &p.Cluster) }

const (
	placeColumns = "started, job_id, cluster"
	inOrder      = " ORDER BY started DESC, job_id DESC, cluster DESC"
)

// page returns the places of the jobs of one answer, and the cursor of the next one.
func (r *Registry) page(ctx context.Context, f site.Filter, after string, limit int) (keys []place, next string, err error) {
	indexed, window, rest := r.indexedConditions(f)
	if after != "" {
		p, err := parseCursor(after)
		if err != nil {
			return nil, "", err
		}
		indexed.add("("+placeColumns+") < (?, ?, ?)", p.Started, p.JobID, column(p.Cluster))
	}
	for _, window := range []int{min(r.windows.first, window), window} {
		keys, next, err = r.search(ctx, indexed, rest, window, limit)
		isEnough := len(keys) == limit || next == ""
		if isEnough || err != nil {
			break
		}
	}
	return keys, next, err
}

// search is page in the first jobs of an index. rest is the filter without the indexed conditions.
func (r *Registry) search(ctx context.Context, indexed conditions, rest site.Filter, window, limit int) (keys []place, next string, err error) {
	all := conditions{slices.Clone(indexed.where), slices.Clone(indexed.args)}
	addOther(&all, rest)
	var last place
	isLimited := false
	if len(all.where) > len(indexed.where) {
		last, isLimited, err = r.lastOfWindow(ctx, indexed, window)
		if err != nil {
			return nil, "", err
		}
	}
	if isLimited {
		all.add("("+placeColumns+") >= (?, ?, ?)", last.Started, last.JobID, last.Cluster)
	}
	query := "SELECT " + placeColumns + " FROM job" + all.clause() + inOrder + " LIMIT " + all.value(limit+1)
	rows, err := r.db.QueryContext(ctx, query, all.args...)
	keys, err = collect(rows, err, scanPlace)
	switch {
	case err != nil:
		return nil, "", err
	case len(keys) > limit:
		keys = keys[:limit]
		next = keys[limit-1].cursor()
	case isLimited:
		next = last.cursor()
	}
	return keys, next, nil
}

// lastOfWindow returns the last job that this call examines, if there are more.
func (r *Registry) lastOfWindow(ctx context.Context, indexed conditions, window int) (p place, isLimited bool, err error) {
	query := "SELECT " + placeColumns + " FROM job" + indexed.clause() + inOrder + " LIMIT 1 OFFSET " + indexed.value(window-1)
	p, err = scanPlace(r.db.QueryRowContext(ctx, query, indexed.args...))
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, err
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

// indexedConditions returns the conditions that an index selects by in the order of the list, how
// many jobs a call examines there, and the filter without these conditions.
func (r *Registry) indexedConditions(f site.Filter) (c conditions, window int, rest site.Filter) {
	window, rest = r.windows.other, f
	switch id, hasID := f.JobID.Get(); {
	case hasID:
		c.add("(job_id = ? OR family = ?)", int64(id), int64(id))
	case len(f.Users) == 1:
		c.add("username = ?", column(f.Users[0]))
		rest.Users = nil
	case len(f.Accounts) == 1:
		c.add("account = ?", column(f.Accounts[0]))
		rest.Accounts = nil
	default:
		window = r.windows.list
	}
	if !f.Until.IsZero() {
		c.add("started < ?", micros(f.Until))
	}
	return c, window, rest
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
