package registry

import (
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt/site"
)

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

// values adds a parameter for each value and returns their names.
func (c *conditions) values(values []string) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = c.value(column(v))
	}
	return strings.Join(names, ", ")
}

// addCondition adds a condition, in which each ? stands for the next value.
func (c *conditions) addCondition(condition string, values ...any) {
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
	rest   site.Filter // what the conditions do not contain
	window int         // how many of its jobs a call examines
}

// ranges returns the ranges in which the jobs of a filter are. With an Access, each of them has only jobs
// that the reader may see: the cursor names the last job that was examined.
func (r *Jobs) ranges(f site.Filter) []indexRange {
	b := rangeBuilder{filter: f}
	if f.Access != nil {
		f.Access = &site.Access{Users: named(f.Access.Users), Accounts: named(f.Access.Accounts)}
	}
	if id, ok := f.JobID.Get(); ok {
		rest := f
		rest.Access = nil
		b.addRange(hasJobID, rest, r.windows.other, int64(id), int64(id))
		if f.Access != nil {
			b.all[0].restrict(*f.Access)
		}
		return b.all
	}
	if f.Access != nil {
		rest := f
		rest.Access = nil
		b.addUsers(rest, both(f.Users, f.Access.Users), r.windows.other)
		b.addAccounts(rest, both(f.Accounts, f.Access.Accounts), r.windows.other)
		return b.all
	}
	isUsers := len(f.Users) > 0 && len(f.Users) <= 2*maxValues // with their pseudonyms
	isAccounts := len(f.Accounts) > 0 && len(f.Accounts) <= maxValues
	isPartitions := len(f.Partitions) > 0 && len(f.Partitions) <= maxValues
	rest := f
	isByStart := f.Sort == site.ByStart // the other orders have no indexes of outcome, state and partition
	switch {
	case isUsers:
		b.addUsers(rest, f.Users, r.windows.other)
	case isAccounts:
		b.addAccounts(rest, f.Accounts, r.windows.other)
	case isByStart && f.Outcome != "":
		rest.Outcome = ""
		b.addValues("outcome", rest, []string{f.Outcome}, r.windows.other)
	case isByStart && f.State != "":
		rest.State = ""
		b.addValues("state", rest, []string{string(f.State)}, r.windows.other)
	case isByStart && isPartitions:
		rest.Partitions = nil
		b.addValues("partition", rest, f.Partitions, r.windows.other)
	default:
		b.addRange("", rest, r.windows.list)
	}
	return b.all
}

// named returns the values that are not empty: a run without a known user has the empty one.
func named(values []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
}

// both returns the values that are in both lists; all of the second if the first is empty.
func both(wanted, allowed []string) []string {
	if len(wanted) == 0 {
		return allowed
	}
	return slices.DeleteFunc(slices.Clone(allowed), func(v string) bool { return !slices.Contains(wanted, v) })
}

// rangeBuilder makes the ranges of a filter.
type rangeBuilder struct {
	filter site.Filter
	all    []indexRange
}

func (b *rangeBuilder) addUsers(rest site.Filter, users []string, window int) {
	rest.Users = nil
	b.addValues("username", rest, users, window)
}

func (b *rangeBuilder) addAccounts(rest site.Filter, accounts []string, window int) {
	rest.Accounts = nil
	b.addValues("account", rest, accounts, window)
}

// addValues adds a range for each value of a column. They share the window.
func (b *rangeBuilder) addValues(name string, rest site.Filter, values []string, window int) {
	fitting := make([]string, len(values))
	for i, v := range values {
		fitting[i] = column(v)
	}
	slices.Sort(fitting)
	fitting = slices.Compact(fitting)
	for _, v := range fitting {
		b.addRange(name+" = ?", rest, max(1, window/len(fitting)), v)
	}
}

func (b *rangeBuilder) addRange(condition string, rest site.Filter, window int, values ...any) {
	one := indexRange{rest: rest, window: window}
	if condition != "" {
		one.addCondition(condition, values...)
	}
	isUntil := !b.filter.Until.IsZero() && b.filter.Sort == site.ByStart
	if isUntil {
		one.addCondition("started < ?", micros(b.filter.Until))
	}
	if b.filter.Sort == site.ByWaste {
		one.addCondition(knownWaste)
	}
	if b.filter.Node != "" {
		one.addCondition(onNode, column(b.filter.Node))
	}
	b.all = append(b.all, one)
}

// hasJobID selects a job, or the tasks or components of a job.
const hasJobID = "(job_id = ? OR family = ?)"

// knownWaste selects the jobs whose waste is known.
const knownWaste = "waste >= 0"

// onNode selects the jobs of the newest runs of a node.
const onNode = "(cluster, job_id, generation) IN (SELECT cluster, job_id, generation FROM run WHERE node = ? AND job_id IS NOT NULL ORDER BY started DESC LIMIT 4000)"

// restrict adds the condition that a reader may see the job. It has no other part, so that SQLite uses the indexes.
func (c *conditions) restrict(a site.Access) {
	var either []string
	if len(a.Users) > 0 {
		either = append(either, "username IN ("+c.values(a.Users)+")")
	}
	if len(a.Accounts) > 0 {
		either = append(either, "account IN ("+c.values(a.Accounts)+")")
	}
	if len(either) == 0 {
		either = []string{"1 = 0"}
	}
	c.where = append(c.where, "("+strings.Join(either, " OR ")+")")
}

// addNames adds the conditions of a filter that compare texts. suffix follows the name of each column.
func (c *conditions) addNames(f site.Filter, suffix string) {
	for _, one := range []struct {
		column string
		values []string
	}{{"username", f.Users}, {"account", f.Accounts}, {"cluster", some(f.Cluster)}, {"partition", f.Partitions},
		{"outcome", some(f.Outcome)}, {"state", some(string(f.State))}, {"label", some(f.Label)}} {
		if len(one.values) > 0 {
			c.where = append(c.where, one.column+suffix+" IN ("+c.values(one.values)+")")
		}
	}
	if f.FullName != "" {
		c.addCondition("name"+suffix+" = ?", folded(f.FullName))
	}
	if f.Name != "" {
		c.addCondition(`name LIKE ? ESCAPE '\'`, "%"+likeEscapes.Replace(folded(f.Name))+"%")
	}
}

// addOther adds the conditions of a filter that the rows of the index are compared with. The
// concatenations keep the database from another index.
func addOther(c *conditions, f site.Filter) {
	c.addNames(f, " || ''")
	isUntil := !f.Until.IsZero() && f.Sort != site.ByStart // else add has it
	if isUntil {
		c.addCondition("started + 0 < ?", micros(f.Until))
	}
	if !f.Since.IsZero() {
		c.addCondition("(ended IS NULL OR ended >= ?)", micros(f.Since))
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
