package page

import (
	"cmp"
	"fmt"
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
	Totals            totalTable
	Partitions, Weeks totalTable
	Chart             *chart
	Table             jobTable
	IsTableCut        bool // the search has not seen all jobs
	Back              string
	All               string // link to the jobs
}

// totalTable is a table of totals. Its id names it on the page.
type totalTable struct {
	ID, Title, Head string
	Rows            []totalRow
	HasNotes        bool
}

// totalRow is a user, an account, a partition or a week.
type totalRow struct {
	Name, Link       string
	JobsLink         string // the jobs of the user or account
	Jobs, Waste      string
	Parts            string // of the waste
	CPU, GPU, Memory usage
	Note             string
}

// usage is what was used of what was reserved, in hours.
type usage struct {
	share
	Of string
}

func usageOf(used, reserved rt.Opt[float64], mark report.Mark) usage {
	u := usage{share: shareOf(used, reserved, mark), Of: dash}
	if reserved.Valid() {
		u.Of = mark.Sign(hours(used)) + " of " + hours(reserved)
	}
	return u
}

func (p *Pages) users(w http.ResponseWriter, r request) error { return p.totals(w, r, site.ByUser) }

func (p *Pages) accounts(w http.ResponseWriter, r request) error {
	return p.totals(w, r, site.ByAccount)
}

// The period of the totals: without a first day, and the longest.
const (
	defaultDays = 56
	mostDays    = 53 * 7
)

// totalsFields are the parameters of the totals.
var totalsFields = []string{"user", "account", "since", "until"}

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

func (p *Pages) totals(w http.ResponseWriter, r request, by site.Group) error {
	f, values, err := totalsFilter(r)
	if err != nil {
		return err
	}
	what, field := "Users", string(by)
	if by == site.ByAccount {
		what = "Accounts"
	}
	totals, err := p.conf.Registry.Jobs.Totals(r.Context(), f, by, mostTotals)
	if err != nil {
		return err
	}
	weeks, err := p.conf.Registry.Jobs.Totals(r.Context(), f, site.ByWeek, weekForm.most)
	if err != nil {
		return err
	}
	partitions, err := p.conf.Registry.Jobs.Totals(r.Context(), f, site.ByPartition, mostTotals)
	if err != nil {
		return err
	}
	found, isCut, err := p.wasteful(r, f, mostSaving)
	if err != nil {
		return err
	}
	page := totalsPage{
		Query: values, What: what, Field: field, Table: p.tableOfJobs(found, shownColumns("", found), map[string]string{}), Chart: chartOf(weeks),
		IsTableCut: isCut, All: link("jobs", values, "sort", string(site.ByWaste)),
		Totals:     p.tableOf(totalTable{ID: "totals", Title: "What was reserved and used", Head: what[:len(what)-1]}, totals),
		Partitions: p.tableOf(totalTable{ID: "partitions", Title: "By partition", Head: "Partition"}, partitions),
	}
	for i := range totals {
		if totals[i].Name != "" {
			page.Totals.Rows[i].Link = link(r.URL.Path[1:], values, field, totals[i].Name)
			page.Totals.Rows[i].JobsLink = link("jobs", values, field, totals[i].Name)
		}
	}
	for i := range partitions {
		if partitions[i].Name != "" {
			page.Partitions.Rows[i].Link = link("jobs", values, "partition", partitions[i].Name, "sort", string(site.ByWaste))
		}
	}
	slices.Reverse(weeks)
	page.Weeks = p.tableOf(totalTable{ID: "weeks", Title: "By week", Head: "Week from"}, weeks)
	for i := range weeks {
		page.Weeks.Rows[i].Name = weeks[i].Begin.Format(time.DateOnly)
	}
	if values[field] != "" {
		page.Back = link(r.URL.Path[1:], values, field, "")
	}
	return p.show(r, w, "totals.html.tmpl", what, page)
}

// wasteful returns the jobs of a filter that waste most. isCut is set if the search has not seen all jobs.
func (p *Pages) wasteful(r request, f site.Filter, most int) (found []site.JobRow, isCut bool, err error) {
	f.Sort = site.ByWaste
	found, next, err := p.search(r.Context(), f, "", most)
	return found, len(found) < most && next != "", err
}

// tableOf adds the rows to a table.
func (p *Pages) tableOf(t totalTable, totals []site.Total) totalTable {
	for i := range totals {
		row := p.totalRowOf(totals[i])
		t.HasNotes = t.HasNotes || row.Note != ""
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (p *Pages) totalRowOf(t site.Total) totalRow {
	const gib = 1 << 30
	row := totalRow{
		Name: printable.Text(t.Name), Jobs: grouped(t.Jobs), Waste: dash, Parts: cmp.Or(t.WasteShares(p.conf.Registry.Prices()), dash),
		CPU: usageOf(t.CoreSecsUsed, t.CoreSecs, t.CoreMark), GPU: usageOf(t.GPUSecsUsed, t.GPUSecs, report.Exact),
		Memory: usageOf(scaled(t.MemorySecsUsed, 1.0/gib), scaled(t.MemorySecs, 1.0/gib), t.MemoryMark),
	}
	for _, u := range []*usage{&row.CPU, &row.GPU, &row.Memory} {
		u.Level = p.conf.Colors.OfUse(u.percent())
	}
	if t.WasteSecs.Valid() {
		row.Waste = t.WasteMark().Sign(hours(t.WasteSecs))
	}
	if lacking := t.Jobs - t.Known; lacking > 0 {
		row.Note = fmt.Sprintf("%s running or without figures", grouped(lacking))
	}
	return row
}

// mostTotals is the number of rows of a table of totals.
const mostTotals = 200

// mostSaving is the number of jobs in the list of those that waste most.
const mostSaving = 10
