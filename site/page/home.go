package page

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// The sizes of the first page.
const (
	homeDays    = 7
	homeRunning = 8
	homeWorst   = 3
	homeRows    = 5
)

// homePage is the first page: the reader's own jobs, or all jobs for an operator without a user.
type homePage struct {
	Whose               string // "My" or "The site's"
	Week                weekView
	WeekAll             string // link
	Running             table
	RunningAll          string // link
	IsRunningCut        bool   // the search has not seen all jobs
	Worst               []advisedJob
	WorstAll            string // link
	IsWorstCut          bool   // the search has not seen all jobs
	Accounts            table
	Cluster             *clusterPage
	Nodes               *nodesPage
	Users               table
	IsOperator, HasSite bool
	Site                weekView // of all jobs, if Week is not
}

// weekView has the last seven days, and how they differ from those before.
type weekView struct {
	CPU, GPU *chart
	Changes  []change
	HasJobs  bool
}

// change is a figure of this week and of the last one.
type change struct{ Name, Now, Before, Text, Class string }

// advisedJob is a job with what to change about it.
type advisedJob struct {
	Link, Label, Name, User string
	Request, Advice         string // options for code, and what else to change
	Waste                   cell
	Outcome                 cell
}

// home answers with the first page.
func (p *Pages) home(w http.ResponseWriter, r request) error {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	since := today.AddDate(0, 0, 1-homeDays)
	own := site.Filter{Access: r.access, Users: some(r.reader.User)}
	page := homePage{Whose: "My", IsOperator: r.reader.Operator}
	values := map[string]string{"since": since.Format(time.DateOnly)}
	switch {
	case r.reader.User != "":
		values["user"] = r.reader.User
	case r.reader.Operator:
		page.Whose = "The site's"
	default: // a token of accounts
		page.Whose = "Our"
	}
	page.WeekAll = link("jobs", values)
	page.RunningAll = link("jobs", values, "since", "", "state", string(rt.StateRunning))
	page.WorstAll = link("jobs", values, "sort", string(site.ByWaste))
	for _, fill := range []func() error{
		func() (err error) { page.Week, err = p.week(r, own, today); return err },
		func() error { return p.addRunning(r, own, &page) },
		func() error { return p.addWorst(r, own, since, &page) },
		func() error { return p.addAccounts(r, own, since, &page) },
		func() error { return p.addSite(r, since, today, &page) },
	} {
		if err := fill(); err != nil {
			return err
		}
	}
	f := p.frame(r.Request, r.reader, "Home").refreshed(len(page.Running.Rows) > 0)
	return f.write(w, http.StatusOK, "home.html.tmpl", page)
}

// week returns the last seven days of the ended jobs of a filter. It compares the seven whole days before today with the
// seven days before them.
func (p *Pages) week(r request, f site.Filter, today time.Time) (v weekView, err error) {
	f.Since, f.Until, f.State = today.AddDate(0, 0, -2*homeDays), today.AddDate(0, 0, 1), rt.StateEnded
	days, err := p.conf.Registry.Jobs.Totals(r.Context(), f, site.ByDay, 2*homeDays+1)
	if err != nil {
		return v, err
	}
	charted := daysFrom(days, today.AddDate(0, 0, 1-homeDays))
	v.CPU, v.GPU = coreDays.chart(charted, today), gpuDays.chart(charted, today)
	whole := days[len(daysFrom(days, today)):]
	recent := daysFrom(whole, today.AddDate(0, 0, -homeDays))
	now, before := sumOf(recent), sumOf(whole[len(recent):])
	v.HasJobs = len(whole) > 0
	jobs := changeOf(rt.Some(float64(now.Jobs)), rt.Some(float64(before.Jobs)), false)
	jobs.Name, jobs.Now, jobs.Before = "Jobs", grouped(now.Jobs), grouped(before.Jobs)
	v.Changes = []change{jobs}
	add := func(name string, now, before rt.Opt[float64], isLoss bool) {
		if now.Valid() || before.Valid() {
			c := changeOf(now, before, isLoss)
			c.Name, c.Now, c.Before = name, hours(now), hours(before)
			v.Changes = append(v.Changes, c)
		}
	}
	add("Core-hours used", now.CoreSecsUsed, before.CoreSecsUsed, false)
	add("Core-hours not used", now.NotUsed[0], before.NotUsed[0], true)
	add("GPU-hours used", now.GPUSecsUsed, before.GPUSecsUsed, false)
	add("GPU-hours not used", now.NotUsed[1], before.NotUsed[1], true)
	add("Waste", now.WasteSecs, before.WasteSecs, true)
	return v, nil
}

// daysFrom returns the days from a day on; the newest is the first of both lists.
func daysFrom(days []site.Total, day time.Time) []site.Total {
	n := slices.IndexFunc(days, func(t site.Total) bool { return t.Begin.Before(day) })
	if n < 0 {
		n = len(days)
	}
	return days[:n]
}

func sumOf(list []site.Total) (sum site.Total) {
	for i := range list {
		sum.AddTotal(&list[i])
	}
	return sum
}

// changeOf compares a figure with the week before. A loss is better if it is lower.
func changeOf(now, before rt.Opt[float64], isLoss bool) change {
	c := change{Text: dash}
	isComparable := now.Valid() && before.Or(0) > 0
	if !isComparable {
		return c
	}
	pct := (now.Or(0)/before.Or(0) - 1) * 100
	c.Text = fmt.Sprintf("%+.0f %%", math.Round(pct)+0) // not -0
	switch {
	case isLoss && pct >= 10:
		c.Class = "worse"
	case isLoss && pct <= -10:
		c.Class = "better"
	}
	return c
}

func (p *Pages) addRunning(r request, f site.Filter, page *homePage) error {
	f.State = rt.StateRunning
	jobs, next, err := p.search(r.Context(), f, "", homeRunning)
	if err != nil {
		return err
	}
	page.IsRunningCut = len(jobs) < homeRunning && next != ""
	keys := "job,name,partition,outcome,elapsed,cpu,memory,gpu"
	if r.reader.User == "" {
		keys = "job,name,user,outcome,elapsed,cpu,memory,gpu"
	}
	page.Running = p.tableOfJobs(jobs, jobList.shown(keys, jobs), map[string]string{})
	return nil
}

func (p *Pages) addWorst(r request, f site.Filter, since time.Time, page *homePage) error {
	f.Since = since
	jobs, isCut, err := p.toChange(r, f)
	if err != nil {
		return err
	}
	page.IsWorstCut = isCut
	for i := range jobs {
		j := &jobs[i]
		request, advice, err := p.found.Advice(r.Context(), r.reader, *j)
		if err != nil {
			return err
		}
		page.Worst = append(page.Worst, advisedJob{
			Link: linkOfRow(j), Label: printable.Text(j.Label), Name: printable.Text(j.Name), User: printable.Text(j.User),
			Waste: jobList.column("waste").cell(p, j), Request: printable.Text(request), Advice: printable.Text(advice), Outcome: outcomeCell(p, j),
		})
	}
	return nil
}

// addAccounts adds the reader's part of each account. Only who sees the jobs of an account sees its sum.
func (p *Pages) addAccounts(r request, f site.Filter, since time.Time, page *homePage) error {
	if r.reader.User == "" {
		return nil
	}
	f.Since = since
	mine, err := p.conf.Registry.Jobs.Totals(r.Context(), f, site.ByAccount, homeRows)
	if err != nil {
		return err
	}
	list := totalLists[site.ByAccount]
	shown := list.shown("cpu,gpu,waste", mine)
	parts, err := p.partsOf(r, since, mine)
	if err != nil {
		return err
	}
	if len(parts) > 0 {
		shown = append(shown, column[site.Total]{key: "part", head: "My part", isNumber: true, cell: func(_ *Pages, t *site.Total) cell {
			return cell{Text: cmp.Or(parts[t.Name], dash)}
		}})
	}
	page.Accounts = list.table(p, mine, shown, func(l *cell, c *column[site.Total], t *site.Total) {
		if c.key == "account" {
			l.Link = link("accounts", map[string]string{"account": t.Name})
		}
	})
	page.Accounts.By = "accounts"
	return nil
}

// partsOf returns the reader's parts of the core-hours of accounts, those whose sum the reader may see.
func (p *Pages) partsOf(r request, since time.Time, mine []site.Total) (parts map[string]string, err error) {
	if !r.reader.Operator && len(r.reader.Accounts) == 0 {
		return nil, nil
	}
	all, err := p.conf.Registry.Jobs.Totals(r.Context(), site.Filter{Access: r.access, Since: since}, site.ByAccount, mostTotals)
	parts = map[string]string{}
	for i := range mine {
		t := &mine[i]
		k := slices.IndexFunc(all, func(other site.Total) bool { return other.Name == t.Name })
		maySee := r.reader.Operator || slices.Contains(r.reader.Accounts, t.Name)
		if k >= 0 && maySee {
			parts[t.Name] = shareOf(t.CoreSecs, all[k].CoreSecs, report.Exact).Text()
		}
	}
	return parts, err
}

// addSite adds what operators see.
func (p *Pages) addSite(r request, since, today time.Time, page *homePage) (err error) {
	if !r.reader.Operator {
		return nil
	}
	page.Cluster, err = p.cluster(r)
	if err != nil {
		return err
	}
	nodes, bad, err := p.findNodes(r, true)
	if err != nil {
		return err
	}
	nodeList.sort(p, bad, sortKey{key: nodeList.usual})
	nodes.Table = nodeList.table(p, bad[:min(len(bad), homeRows)], nodeList.shown("problem,report", bad), nil)
	nodes.Table.By = "nodes"
	page.Nodes = &nodes
	users, err := p.conf.Registry.Jobs.Totals(r.Context(), site.Filter{Since: since}, site.ByUser, homeRows)
	if err != nil {
		return err
	}
	list := totalLists[site.ByUser]
	page.Users = list.table(p, users, list.shown("jobs,waste,parts", users), func(l *cell, c *column[site.Total], t *site.Total) {
		if c.key == "user" {
			l.Link = link("users", map[string]string{"user": t.Name})
		}
	})
	page.Users.By = "unused"
	page.Site, page.HasSite = page.Week, true
	if r.reader.User != "" {
		page.Site, err = p.week(r, site.Filter{}, today)
	}
	return err
}

// mostRunning is the largest number of running jobs whose sums the first page has.
const mostRunning = 2000

// clusterPage is what runs now.
type clusterPage struct {
	Rows      []partitionNow
	IsPartial bool
}

// partitionNow is what the running jobs of a partition have reserved, and how much of it is busy.
type partitionNow struct {
	Name, Link                  string
	Jobs, Unread                int
	cores, busy, gpus, busyGPUs float64
	Cores, GPUs                 usage
}

// cluster returns what the running jobs have reserved and use, by partition. Their use is the mean so far.
func (p *Pages) cluster(r request) (*clusterPage, error) {
	jobs, next, err := p.search(r.Context(), site.Filter{State: rt.StateRunning}, "", mostRunning)
	if err != nil {
		return nil, err
	}
	page := &clusterPage{IsPartial: next != ""}
	at := map[string]*partitionNow{}
	for i := range jobs {
		j := &jobs[i]
		one := at[j.Partition]
		if one == nil {
			one = &partitionNow{Name: printable.Text(j.Partition), Link: link("jobs", map[string]string{"partition": j.Partition, "state": string(rt.StateRunning)})}
			at[j.Partition] = one
		}
		one.add(j)
	}
	for _, one := range at {
		one.Cores, one.GPUs = p.useNow(one.busy, one.cores), p.useNow(one.busyGPUs, one.gpus)
		page.Rows = append(page.Rows, *one)
	}
	slices.SortFunc(page.Rows, func(a, b partitionNow) int { return strings.Compare(a.Name, b.Name) })
	return page, nil
}

func (p *Pages) useNow(busy, reserved float64) usage {
	u := usage{share: shareOf(rt.Some(busy), rt.Some(reserved), report.Exact)}
	u.Level = p.conf.Colors.OfUse(u.percent())
	u.Of = fmt.Sprintf("%.0f of %.0f busy, %.0f idle", busy, reserved, max(0, reserved-busy))
	return u
}

func (n *partitionNow) add(j *site.JobRow) {
	n.Jobs++
	if len(j.Live) == 0 {
		n.Unread++
	}
	for i := range j.Live {
		l := &j.Live[i]
		if pct, isKnown := l.CPU.UsedPct.Get(); isKnown && l.CPU.CoresOf == "allocation" {
			cores := float64(l.CPU.Cores.Or(0))
			n.cores += cores
			n.busy += cores * pct / 100
		}
		for _, gpu := range l.GPUs {
			if pct, isKnown := gpu.BusyPct.Get(); isKnown && gpu.InJob.Or(false) {
				n.gpus++
				n.busyGPUs += pct / 100
			}
		}
	}
}
