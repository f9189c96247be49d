package page

import (
	"fmt"
	"net/http"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// mostSaving is the number of jobs in the list of those that waste most.
const mostSaving = 10

// totalsPage has the figures of the users or accounts.
type totalsPage struct {
	Query       map[string]string
	What, Field string // "Users", "user"
	Totals      []totalRow
	Weeks       []weekRow
	Jobs        []jobRow
	Unknown     int64 // jobs without figures
	Back        string
	All         string // link to the jobs
	IsByWaste   bool
	ByStart     string
	ByWaste     string
	ChartWidth  int
	ChartHeight int
	BarWidth    int
}

// totalRow is a user or an account.
type totalRow struct {
	Name, Link              string
	Jobs                    string
	CPU, Memory, GPU        share
	Cores, GPUs, GiB        string // reserved, in hours
	CoresUsed, GPUsUsed     string
	GiBUsed, Waste, Lacking string
}

// weekRow is a week, with its bars in the chart.
type weekRow struct {
	totalRow
	X, ReservedY, Reserved, UsedY, Used int // pixels
}

func (p *Pages) users(w http.ResponseWriter, r request) error { return p.totals(w, r, site.ByUser) }

func (p *Pages) accounts(w http.ResponseWriter, r request) error {
	return p.totals(w, r, site.ByAccount)
}

// defaultDays is the period of the totals without dates.
const defaultDays = 56

func (p *Pages) totals(w http.ResponseWriter, r request, by site.Group) error {
	f, values, err := filterOf(r)
	if err != nil {
		return err
	}
	if f.Since.IsZero() {
		today := time.Now().UTC().Truncate(24 * time.Hour)
		f.Since = today.AddDate(0, 0, -defaultDays)
		values["since"] = f.Since.Format(time.DateOnly)
	}
	f = site.Filter{Users: f.Users, Accounts: f.Accounts, Since: f.Since, Until: f.Until, Access: r.access}
	what, field := "Users", string(by)
	if by == site.ByAccount {
		what = "Accounts"
	}
	totals, err := p.conf.Registry.Totals(r.Context(), f, by)
	if err != nil {
		return err
	}
	weeks, err := p.conf.Registry.Totals(r.Context(), f, site.ByWeek)
	if err != nil {
		return err
	}
	f.Sort = site.ByWaste
	found, err := p.wasteful(r, f)
	if err != nil {
		return err
	}
	rows, err := p.rowsOf(r, found)
	if err != nil {
		return err
	}
	page := totalsPage{
		Query: values, What: what, Field: field, Jobs: rows, IsByWaste: true, ChartWidth: chartWidth, ChartHeight: chartHeight,
		All: link("jobs", values, "sort", string(site.ByWaste)),
	}
	page.Weeks, page.BarWidth = weekRows(weeks)
	for _, t := range totals {
		row := totalRowOf(t)
		row.Name, row.Link = rt.Printable(t.Name), link(r.URL.Path[1:], values, field, t.Name)
		page.Totals = append(page.Totals, row)
		page.Unknown += t.Jobs - t.Known
	}
	if values[field] != "" {
		page.Back = link(r.URL.Path[1:], values, field, "")
	}
	return r.show(w, "totals.html.tmpl", what, page)
}

// wasteful returns the jobs of a filter that waste most.
func (p *Pages) wasteful(r request, f site.Filter) ([]site.Job, error) {
	found, _, err := p.search(r.Context(), f, "")
	return found[:min(len(found), mostSaving)], err
}

func totalRowOf(t site.Total) totalRow {
	const gib = 1 << 30
	row := totalRow{
		Jobs: grouped(t.Jobs), CPU: shareOf(t.CoreSecsUsed, t.CoreSecs), Memory: shareOf(t.MemorySecsUsed, t.MemorySecs), GPU: shareOf(t.GPUSecsUsed, t.GPUSecs),
		Cores: hours(t.CoreSecs), CoresUsed: hours(t.CoreSecsUsed), GPUs: hours(t.GPUSecs), GPUsUsed: hours(t.GPUSecsUsed),
		GiB: hours(scaled(t.MemorySecs, 1.0/gib)), GiBUsed: hours(scaled(t.MemorySecsUsed, 1.0/gib)), Waste: dash,
	}
	if t.Known > 0 {
		row.Waste = hours(rt.Some(t.WasteSecs))
	}
	if lacking := t.Jobs - t.Known; lacking > 0 {
		row.Lacking = fmt.Sprintf("%s without figures", grouped(lacking))
	}
	return row
}

// The size of the chart of the weeks, in its own units.
const (
	chartWidth  = 720
	chartHeight = 160
	chartWeeks  = 53
)

// weekRows returns the weeks in their order, with the bars of the reserved and used core-hours, and the
// width of a bar.
func weekRows(weeks []site.Total) (rows []weekRow, width int) {
	weeks = weeks[:min(len(weeks), chartWeeks)] // the newest first
	highest := 0.0
	for _, t := range weeks {
		highest = max(highest, t.CoreSecs.Or(0), t.CoreSecsUsed.Or(0))
	}
	if len(weeks) == 0 {
		return nil, 0
	}
	first := weeks[len(weeks)-1].Week
	const week = 7 * 24 * time.Hour
	number := int(weeks[0].Week.Sub(first)/week) + 1
	step := chartWidth / max(number, 8)
	height := func(v rt.Opt[float64]) int {
		if highest <= 0 {
			return 0
		}
		return int(v.Or(0) / highest * chartHeight)
	}
	for i := len(weeks) - 1; i >= 0; i-- {
		t := weeks[i]
		row := weekRow{totalRow: totalRowOf(t), X: int(t.Week.Sub(first)/week) * step, Reserved: height(t.CoreSecs), Used: height(t.CoreSecsUsed)}
		row.Name = t.Week.Format(time.DateOnly)
		row.ReservedY, row.UsedY = chartHeight-row.Reserved, chartHeight-row.Used
		rows = append(rows, row)
	}
	return rows, step * 4 / 5
}
