package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// day in microseconds.
const day = int64(24 * time.Hour / time.Microsecond)

// periods are the groups by time: their length, and the first one after the epoch of the database, in microseconds. A
// week begins on Monday.
var periods = map[site.Group]struct{ first, length int64 }{site.ByWeek: {4 * day, 7 * day}, site.ByWeekAndPartition: {4 * day, 7 * day}, site.ByDay: {0, day}}

// groupNames are the names of groups. They are expressions: by a column SQLite would read the jobs of all times in its
// index. So it reads the jobs of the time that is asked for.
var groupNames = map[site.Group]string{
	site.ByUser: "coalesce(username, '')", site.ByAccount: "coalesce(account, '')", site.ByPartition: "coalesce(partition, '')", site.ByWeekAndPartition: "coalesce(partition, '')",
}

// summedJobs are the jobs as sums have them: a running job has no figures, because they are not final.
var summedJobs = func() string {
	columns := "started, cluster, job_id, family, username, account, partition, name, state, outcome"
	for _, name := range append(slices.Clone(figureNames), "waste") {
		none := "NULL"
		switch {
		case name == "waste":
			none = "-1"
		case strings.HasSuffix(name, "_mark"):
			none = "''"
		}
		columns += fmt.Sprintf(", CASE WHEN state = '%s' THEN %s ELSE %s END AS %[3]s", rt.StateRunning, none, name)
	}
	return "(SELECT " + columns + " FROM job) AS job"
}()

// unusedColumns sum what each job did not use, as report.Balance.Unused.
var unusedColumns = func() (columns string) {
	for _, name := range []string{"core", "gpu", "mem"} {
		columns += fmt.Sprintf("sum(CASE WHEN %[1]s_secs > %[1]s_used THEN %[1]s_secs - %[1]s_used WHEN %[1]s_secs IS NOT NULL THEN 0.0 END), ", name)
	}
	return columns
}()

// Totals sums the figures of the jobs that began in the interval of a filter and match the rest of it. It ignores
// Filter.Node. It returns the totals with the most waste first, at most limit. Weeks and days are in order, the newest ones. A job
// that is running is counted, without figures.
func (r *Jobs) Totals(ctx context.Context, f site.Filter, by site.Group, limit int) ([]site.Total, error) {
	f.Users, f.Access = r.pseudonyms.wanted(f), r.pseudonyms.reach(f.Access)
	query, args, err := totalsQuery(f, by, limit)
	if err != nil {
		return nil, err
	}
	period := periods[by]
	return list(ctx, r.db, "sum the figures of jobs", func(scan scanFunc) (t site.Total, err error) {
		var number int64
		var waste float64
		to := []any{&t.Name, &number, &t.Jobs}
		for i := range t.NotUsed {
			to = append(to, optional[float64]{&t.NotUsed[i]})
		}
		err = scan(append(append(to, columnsOf(&t.Balance)...), &t.Known, &waste)...)
		if t.Known > 0 {
			t.WasteSecs.Set(waste)
		}
		if period.length > 0 {
			t.Begin = moment(period.first + number*period.length)
		}
		return t, err
	}, query, args...)
}

// totalsQuery is the query of Totals.
func totalsQuery(f site.Filter, by site.Group, limit int) (query string, args []any, err error) {
	period, isPeriod := periods[by]
	name, isNamed := groupNames[by]
	begin, group, order := "0", "group_name", "wasted DESC, group_name"
	switch {
	case isPeriod:
		begin, group, order = fmt.Sprintf("(started - %d) / %d", period.first, period.length), "group_begin", "group_begin DESC, group_name"
	case !isNamed:
		return "", nil, fmt.Errorf("sum the figures of jobs: %q is no group", by)
	}
	if isPeriod && isNamed {
		group += ", group_name"
	}
	c := summed(f)
	query = "SELECT " + cmp.Or(name, "''") + " AS group_name, " + begin + " AS group_begin, count(*), " + unusedColumns + `sum(core_secs), sum(core_used), sum(gpu_secs), sum(gpu_used), sum(mem_secs), sum(mem_used), max(core_mark), max(mem_mark),
		count(CASE WHEN waste >= 0 THEN 1 END), coalesce(sum(CASE WHEN waste >= 0 THEN CAST(waste AS DOUBLE PRECISION) END), 0) AS wasted
		FROM ` + summedJobs + c.clause() + " GROUP BY " + group + " ORDER BY " + order + " LIMIT " + c.value(limit)
	return query, c.args, nil
}

// summed are the conditions of the jobs whose figures Totals sums.
func summed(f site.Filter) (c conditions) {
	if !f.Since.IsZero() {
		c.addCondition("started >= ?", micros(f.Since))
	}
	if !f.Until.IsZero() {
		c.addCondition("started < ?", micros(f.Until))
	}
	if f.Access != nil {
		c.restrict(site.Access{Users: named(f.Access.Users), Accounts: named(f.Access.Accounts)})
	}
	if id, ok := f.JobID.Get(); ok {
		c.addCondition(hasJobID, int64(id), int64(id))
	}
	c.addNames(f, "")
	return c
}
