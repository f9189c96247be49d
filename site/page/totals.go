package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// totalsPage has the figures of the users or accounts.
type totalsPage struct {
	Query             map[string]string
	What, Field       string // "Users", "user"
	listView                 // of the users or accounts
	Partitions, Weeks table
	Chart             *chart
	Jobs              table
	IsTableCut        bool // the search has not seen all jobs
	Back              string
	All               string // link to the jobs
	Cut               string // the users or accounts that are shown; empty: all
}

// totalList returns the list of users, accounts, partitions or weeks.
func totalList(page, key, head string) *listing[site.Total] {
	return &listing[site.Total]{page, "waste", mostTotals, []column[site.Total]{
		{key: key, head: head, file: key, isText: true, cell: func(_ *Pages, t *site.Total) cell {
			if !t.Begin.IsZero() {
				return cell{Text: t.Begin.Format(time.DateOnly)}
			}
			return cell{Text: printable.Text(t.Name)}
		}},
		{key: "jobs", head: "Jobs", file: "jobs", isNumber: true, cell: func(_ *Pages, t *site.Total) cell {
			return cell{Text: grouped(t.Jobs), Value: rt.Some(float64(t.Jobs))}
		}},
		hoursColumn("waste", "Waste", "waste_core_hours", false, func(t *site.Total) (rt.Opt[float64], report.Mark) { return t.WasteSecs, t.WasteMark() }),
		{key: "parts", head: "Waste by resource", file: "waste_by_resource", isText: true, cell: func(p *Pages, t *site.Total) cell {
			return cell{Text: cmp.Or(t.WasteShares(p.conf.Registry.Prices()), dash)}
		}},
		usageColumn("cpu", "CPU", 0, 1),
		usageColumn("gpu", "GPU", 1, 1),
		usageColumn("memory", "Memory", 2, 1.0/(1<<30)),
		hoursColumn("corehours", "Core-hours", "core_hours", true, func(t *site.Total) (rt.Opt[float64], report.Mark) { return t.CoreSecs, report.Exact }),
		hoursColumn("gpuhours", "GPU-hours", "gpu_hours", true, func(t *site.Total) (rt.Opt[float64], report.Mark) { return t.GPUSecs, report.Exact }),
		{
			key: "unknown", head: "Jobs without figures", file: "jobs_without_figures", isNumber: true,
			isUseful: func(list []site.Total) bool {
				return slices.ContainsFunc(list, func(t site.Total) bool { return t.Jobs > t.Known })
			},
			cell: func(_ *Pages, t *site.Total) cell {
				return cell{Text: grouped(t.Jobs - t.Known), Value: rt.Some(float64(t.Jobs - t.Known))}
			},
		},
	}}
}

// The lists of sums.
var (
	totalLists    = map[site.Group]*listing[site.Total]{site.ByUser: totalList("users", "user", "User"), site.ByAccount: totalList("accounts", "account", "Account")}
	weekList      = totalList("", "week", "Week from")
	partitionList = totalList("", "partition", "Partition")
)

// usageColumn has what was used of a pair of figures. scale leads to the unit whose hours are shown.
func usageColumn(key, head string, pair int, scale float64) column[site.Total] {
	return column[site.Total]{key: key, head: head, file: key + "_pct", cell: func(p *Pages, t *site.Total) cell {
		figures := t.Pairs()[pair]
		u := usageOf(scaled(*figures[1], scale), scaled(*figures[0], scale), markOf(&t.Balance, pair))
		u.Level = p.conf.Colors.OfUse(u.percent())
		return cell{Text: u.Text(), Share: &u.share, Of: u.Of, Value: u.percent()}
	}}
}

// usage is what was used of what was reserved, in hours.
type usage struct {
	share
	Of string
}

func usageOf(used, reserved rt.Opt[float64], mark report.Mark) usage {
	u := usage{share: shareOf(used, reserved, mark)}
	if u.IsKnown {
		u.Of = mark.Sign(hours(used)) + " of " + hours(reserved)
	}
	return u
}

// totalsOf returns the page of the users or accounts, or its CSV.
func totalsOf(by site.Group, isFile bool) func(p *Pages, w http.ResponseWriter, r request) error {
	return func(p *Pages, w http.ResponseWriter, r request) error { return p.totals(w, r, by, isFile) }
}

// The period of the totals: without a first day, and the longest.
const (
	defaultDays = 56
	mostDays    = 53 * 7
)

// totalsFields are the parameters of the totals.
var totalsFields = []string{"user", "account", "since", "until", "sort", "cols"}

// totalsFilter returns the filter of a query, and its values for the form. The totals have no other parameters.
func totalsFilter(r request) (f site.Filter, values map[string]string, err error) {
	f, values, err = filterOf(r)
	if err != nil {
		return f, nil, err
	}
	for name := range values {
		if !slices.Contains(totalsFields, name) {
			return f, nil, badRequest("The users and accounts are limited by user, account and dates, not by %s. The list of jobs is.", name)
		}
	}
	end := f.Until
	if end.IsZero() {
		end = time.Now().UTC().Truncate(24 * time.Hour)
	}
	oldest := end.AddDate(0, 0, -mostDays)
	switch {
	case f.Since.IsZero():
		f.Since = end.AddDate(0, 0, -defaultDays)
	case f.Since.Before(oldest):
		f.Since = oldest
	}
	values["since"] = f.Since.Format(time.DateOnly)
	return f, values, nil
}

func (p *Pages) totals(w http.ResponseWriter, r request, by site.Group, isFile bool) error {
	f, values, err := totalsFilter(r)
	if err != nil {
		return err
	}
	list := totalLists[by]
	order, err := list.order(values["sort"])
	if err != nil {
		return err
	}
	if to := list.short(r, values); to != "" && !isFile {
		return seeOther(w, to)
	}
	totals, err := p.conf.Registry.Jobs.Totals(r.Context(), f, by, mostTotals+1)
	if err != nil {
		return err
	}
	list.sort(p, totals, order)
	shown := list.shown(values["cols"], totals)
	if isFile {
		return list.writeCSV(p, w, totals, shown, len(totals) <= mostTotals)
	}
	field, filter := string(by), withoutViews(values)
	page := totalsPage{Query: values, What: map[site.Group]string{site.ByUser: "Users", site.ByAccount: "Accounts"}[by], Field: field, All: link("jobs", filter, "sort", string(site.ByWaste))}
	page.listView = list.view(list.table(p, totals[:min(len(totals), shownTotals)], shown, func(l *cell, c *column[site.Total], t *site.Total) {
		switch {
		case t.Name == "":
		case c.key == field:
			l.Link = link(list.page, values, field, t.Name)
		case c.key == "jobs":
			l.Link = link("jobs", filter, field, t.Name)
		}
	}), order, values)
	page.Table.By = "totals"
	if len(totals) > shownTotals {
		page.Cut = fmt.Sprintf("the first %d of %s", shownTotals, grouped(int64(len(totals))))
	}
	if values[field] != "" {
		page.Back = link(list.page, values, field, "")
	}
	if err := p.addBelow(r, f, filter, &page); err != nil {
		return err
	}
	return p.show(r, w, "totals.html.tmpl", page.What, page)
}

// addBelow adds what is below the list of users or accounts.
func (p *Pages) addBelow(r request, f site.Filter, filter map[string]string, page *totalsPage) error {
	parts, err := p.conf.Registry.Jobs.Totals(r.Context(), f, site.ByWeekAndPartition, mostTotals)
	if err != nil {
		return err
	}
	weeks := sumsOf(parts, func(t *site.Total) site.Total { return site.Total{Begin: t.Begin} })
	weeks = weeks[:min(len(weeks), weekForm.most)]
	partitions := sumsOf(parts, func(t *site.Total) site.Total { return site.Total{Name: t.Name} })
	partitionList.sort(p, partitions, sortKey{key: partitionList.usual})
	partitions = partitions[:min(len(partitions), shownTotals)]
	found, isCut, err := p.wasteful(r, f, mostSaving)
	if err != nil {
		return err
	}
	page.Jobs, page.IsTableCut, page.Chart = p.tableOfJobs(found, jobList.shown("", found), map[string]string{}), isCut, chartOf(weeks)
	page.Partitions = partitionList.table(p, partitions, partitionList.shown("", partitions), func(l *cell, c *column[site.Total], t *site.Total) {
		if c.key == "partition" && t.Name != "" {
			l.Link = link("jobs", filter, "partition", t.Name, "sort", string(site.ByWaste))
		}
	})
	page.Partitions.By = "partitions"
	slices.Reverse(weeks)
	page.Weeks = weekList.table(p, weeks, weekList.shown("", weeks), nil)
	page.Weeks.By = "weeks"
	return nil
}

// sumsOf adds up the totals of each group, in the order of their first ones.
func sumsOf(list []site.Total, groupOf func(t *site.Total) site.Total) (sums []site.Total) {
	for i := range list {
		group := groupOf(&list[i])
		k := slices.IndexFunc(sums, func(t site.Total) bool { return t.Name == group.Name && t.Begin.Equal(group.Begin) })
		if k < 0 {
			k = len(sums)
			sums = append(sums, group)
		}
		sums[k].AddTotal(&list[i])
	}
	return sums
}

// withoutViews are the values that select jobs.
func withoutViews(values map[string]string) map[string]string {
	filter := maps.Clone(values)
	for _, name := range views {
		delete(filter, name)
	}
	return filter
}

// wasteful returns the jobs of a filter that waste most. isCut is set if the search has not seen all jobs.
func (p *Pages) wasteful(r request, f site.Filter, most int) (found []site.JobRow, isCut bool, err error) {
	f.Sort = site.ByWaste
	found, next, err := p.search(r.Context(), f, "", most)
	return found, len(found) < most && next != "", err
}

// The largest numbers of users or accounts, of a CSV and in a table.
const (
	mostTotals  = 20_000
	shownTotals = 200
)

// mostSaving is the number of jobs in the list of those that waste most.
const mostSaving = 10
