package page

import (
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

type jobColumn = column[site.JobRow]

func textColumn(key, head, field string, of func(j *site.JobRow) string) jobColumn {
	return jobColumn{key: key, head: head, file: key, field: field, isText: true, cell: func(_ *Pages, j *site.JobRow) cell {
		return cell{Text: printable.Text(of(j)), IsName: key == "name"}
	}}
}

// markOf is the mark of the used one of a pair of figures.
func markOf(b *report.Balance, pair int) report.Mark {
	return [...]report.Mark{b.CoreMark, report.Exact, b.MemoryMark}[pair]
}

func shareColumn(key, head string, pair int, level func(c *report.Colors, pct rt.Opt[float64]) report.Level) jobColumn {
	return jobColumn{key: key, head: head, file: key + "_pct", cell: func(p *Pages, j *site.JobRow) cell {
		figures := j.Balance.Pairs()[pair]
		s := shareOf(*figures[1], *figures[0], markOf(&j.Balance, pair))
		s.Level = level(&p.conf.Colors, s.percent())
		return cell{Text: s.Text(), Share: &s, Value: s.percent()}
	}}
}

// hoursColumn is a column of seconds, shown as hours.
func hoursColumn[R any](key, head, file string, isExtra bool, secs func(r *R) (v rt.Opt[float64], mark report.Mark)) column[R] {
	return column[R]{key: key, head: head, file: file, isNumber: true, isExtra: isExtra, cell: func(_ *Pages, r *R) cell {
		v, mark := secs(r)
		if !v.Valid() {
			return cell{Text: dash}
		}
		return cell{Text: mark.Sign(hours(v)), Mark: mark, Value: scaled(v, 1.0/3600)}
	}}
}

// jobList is the list of jobs.
var jobList = listing[site.JobRow]{"jobs", "start", mostSorted, []jobColumn{
	{key: "job", head: "Job", file: "job", cell: func(_ *Pages, j *site.JobRow) cell {
		return cell{Text: printable.Text(j.Label), Link: linkOfRow(j), Value: rt.Some(float64(j.JobID))}
	}},
	clusterColumn,
	textColumn("name", "Name", "name", func(j *site.JobRow) string { return j.Name }),
	textColumn("user", "User", "user", func(j *site.JobRow) string { return j.User }),
	textColumn("account", "Account", "account", func(j *site.JobRow) string { return j.Account }),
	textColumn("partition", "Partition", "partition", func(j *site.JobRow) string { return j.Partition }),
	{key: "outcome", head: "Outcome", file: "outcome", isText: true, field: "outcome", cell: outcomeCell},
	{key: "start", head: "Start", file: "start", cell: func(_ *Pages, j *site.JobRow) cell {
		return cell{Text: moment(j.Start), At: j.Start, Value: rt.Some(float64(j.Start.Unix()))}
	}},
	{key: "elapsed", head: "Elapsed", file: "elapsed_secs", isNumber: true, cell: func(_ *Pages, j *site.JobRow) cell {
		end := j.End
		if j.IsRunning() {
			end = time.Now()
		}
		secs := elapsedSecs(j.Start, end, j.SuspendedSecs)
		return cell{Text: elapsedText(secs), Value: secs}
	}},
	shareColumn("cpu", "CPU", 0, (*report.Colors).OfUse),
	shareColumn("memory", "Memory", 2, (*report.Colors).OfMemory),
	shareColumn("gpu", "GPU", 1, (*report.Colors).OfUse),
	hoursColumn("corehours", "Core-hours", "core_hours", false, func(j *site.JobRow) (rt.Opt[float64], report.Mark) { return j.CoreSecs, report.Exact }),
	hoursColumn("gpuhours", "GPU-hours", "gpu_hours", true, func(j *site.JobRow) (rt.Opt[float64], report.Mark) { return j.GPUSecs, report.Exact }),
	hoursColumn("waste", "Waste", "waste_core_hours", false, func(j *site.JobRow) (rt.Opt[float64], report.Mark) {
		return rt.Map(j.Waste, func(secs int64) float64 { return float64(secs) }), j.WasteMark()
	}),
}}

// clusterColumn has the clusters. It is of use if there are several.
var clusterColumn = func() jobColumn {
	c := textColumn("cluster", "Cluster", "", func(j *site.JobRow) string { return j.Cluster })
	c.isUseful = func(jobs []site.JobRow) bool {
		return slices.ContainsFunc(jobs, func(j site.JobRow) bool { return j.Cluster != jobs[0].Cluster })
	}
	return c
}()

func outcomeCell(p *Pages, j *site.JobRow) cell {
	c := cell{Text: report.WithSlurmState(outcomeOf(j.State, j.Outcome), printable.Text(j.SlurmState)), IsBadge: true, Class: p.conf.Colors.OfOutcome(j.Outcome).Name()}
	if !j.IsRunning() {
		return c
	}
	c.Class = "plain"
	if at := j.LastReading(); !at.IsZero() {
		c.Note = "read " + readAgo(at, time.Now())
	}
	return c
}

// inIndex returns the order of the registry, if it has this one.
func inIndex(by sortKey) (order site.Sort, ok bool) {
	switch jobList.parameter(by) {
	case "":
		return site.ByStart, true
	case "waste":
		return site.ByWaste, true
	}
	return site.ByStart, false
}

// tableOfJobs returns the columns of jobs. values are the filter to which links add; nil: there are no links.
func (p *Pages) tableOfJobs(jobs []site.JobRow, shown []jobColumn, values map[string]string) table {
	t := jobList.table(p, jobs, shown, func(l *cell, c *jobColumn, j *site.JobRow) { l.addLink(c, j, values) })
	t.Label = "Jobs"
	return t
}

// addLink adds the link to the jobs with the same value.
func (l *cell) addLink(c *jobColumn, j *site.JobRow, values map[string]string) {
	switch {
	case values == nil:
		l.Link = ""
		return
	case c.field == "" || l.Text == "":
		return
	}
	value := l.Text
	switch {
	case c.field == "outcome" && j.IsRunning():
		l.Link = link("jobs", values, "state", string(rt.StateRunning))
		return
	case c.field == "outcome":
		value = string(j.Outcome)
	}
	l.Link = link("jobs", values, c.field, value)
}
