package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// cell is a field of a table of jobs.
type cell struct {
	Text, Link      string
	Note            string // after the text
	Class           string // of a badge
	IsBadge, IsName bool
	At              time.Time
	Share           *share
	// Value is what the cell is sorted by, and what a CSV has; if it is absent, the text is.
	Value rt.Opt[float64]
}

// column is a column of the list of jobs.
type column struct {
	key, head string
	file      string // head in a CSV
	isNumber  bool
	isExtra   bool   // hidden unless it is chosen
	field     string // of the filter for which a cell has a link
	cell      func(p *Pages, j *site.JobRow) cell
}

func textColumn(key, head, field string, of func(j *site.JobRow) string) column {
	return column{key: key, head: head, file: key, field: field, cell: func(_ *Pages, j *site.JobRow) cell {
		return cell{Text: printable.Text(of(j)), IsName: key == "name"}
	}}
}

func shareColumn(key, head string, pair int, mark func(b *report.Balance) report.Mark, level func(c *report.Colors, pct rt.Opt[float64]) report.Level) column {
	return column{key: key, head: head, file: key + "_pct", cell: func(p *Pages, j *site.JobRow) cell {
		figures := j.Balance.Pairs()[pair]
		s := shareOf(*figures[1], *figures[0], mark(&j.Balance))
		s.Level = level(&p.conf.Colors, s.percent())
		return cell{Text: s.Text(), Share: &s, Value: s.percent()}
	}}
}

func hoursColumn(key, head, file string, isExtra bool, secs func(j *site.JobRow) rt.Opt[float64], mark func(b *report.Balance) report.Mark) column {
	return column{key: key, head: head, file: file, isNumber: true, isExtra: isExtra, cell: func(_ *Pages, j *site.JobRow) cell {
		v := secs(j)
		text := hours(v)
		if v.Valid() {
			text = mark(&j.Balance).Sign(text)
		}
		return cell{Text: text, Value: scaled(v, 1.0/3600)}
	}}
}

func exact(*report.Balance) report.Mark { return report.Exact }

// columns are the columns of the list of jobs, in their order.
var columns = []column{
	{key: "job", head: "Job", file: "job", cell: func(_ *Pages, j *site.JobRow) cell {
		return cell{Text: printable.Text(j.Label), Link: linkOfRow(j), Value: rt.Some(float64(j.JobID))}
	}},
	textColumn("cluster", "Cluster", "", func(j *site.JobRow) string { return j.Cluster }),
	textColumn("name", "Name", "name", func(j *site.JobRow) string { return j.Name }),
	textColumn("user", "User", "user", func(j *site.JobRow) string { return j.User }),
	textColumn("account", "Account", "account", func(j *site.JobRow) string { return j.Account }),
	textColumn("partition", "Partition", "partition", func(j *site.JobRow) string { return j.Partition }),
	{key: "outcome", head: "Outcome", file: "outcome", field: "outcome", cell: outcomeCell},
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
	shareColumn("cpu", "CPU", 0, func(b *report.Balance) report.Mark { return b.CoreMark }, (*report.Colors).OfUse),
	shareColumn("memory", "Memory", 2, func(b *report.Balance) report.Mark { return b.MemoryMark }, (*report.Colors).OfMemory),
	shareColumn("gpu", "GPU", 1, exact, (*report.Colors).OfUse),
	hoursColumn("corehours", "Core-hours", "core_hours", false, func(j *site.JobRow) rt.Opt[float64] { return j.CoreSecs }, exact),
	hoursColumn("gpuhours", "GPU-hours", "gpu_hours", true, func(j *site.JobRow) rt.Opt[float64] { return j.GPUSecs }, exact),
	hoursColumn("waste", "Waste", "waste_core_hours", false, func(j *site.JobRow) rt.Opt[float64] {
		return rt.Map(j.Waste, func(secs int64) float64 { return float64(secs) })
	}, (*report.Balance).WasteMark),
}

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

// sortKey is the column by which a list is sorted, in its usual direction or in the other one.
type sortKey struct {
	key     string
	isOther bool
}

// parseSort returns the order that a parameter names, and whether there is one.
func parseSort(text string) (s sortKey, ok bool) {
	s.key, s.isOther = strings.CutPrefix(cmp.Or(text, "start"), "-")
	return s, slices.ContainsFunc(columns, func(c column) bool { return c.key == s.key })
}

// text is the parameter; empty for the newest first.
func (s sortKey) text() string {
	switch {
	case s.isOther:
		return "-" + s.key
	case s.key == "start":
		return ""
	}
	return s.key
}

// inIndex returns the order of the registry, if it has this one.
func (s sortKey) inIndex() (by site.Sort, ok bool) {
	switch s.text() {
	case "":
		return site.ByStart, true
	case "waste":
		return site.ByWaste, true
	}
	return site.ByStart, false
}

func columnOf(key string) *column {
	return &columns[slices.IndexFunc(columns, func(c column) bool { return c.key == key })]
}

// sortJobs sorts jobs by a column: numbers from the highest, texts from A on. What is not known is last.
func (p *Pages) sortJobs(jobs []site.JobRow, by sortKey) {
	type keyed struct {
		cell
		job site.JobRow
	}
	c := columnOf(by.key)
	list := make([]keyed, len(jobs))
	for i := range jobs {
		list[i] = keyed{c.cell(p, &jobs[i]), jobs[i]}
	}
	sign := 1
	if by.isOther {
		sign = -1
	}
	slices.SortStableFunc(list, func(a, b keyed) int {
		isTextA, isTextB := !a.Value.Valid(), !b.Value.Valid()
		switch {
		case isTextA && isTextB:
			return sign * strings.Compare(strings.ToLower(a.Text), strings.ToLower(b.Text))
		case isTextA:
			return 1
		case isTextB:
			return -1
		}
		return -sign * cmp.Compare(a.Value.Or(0), b.Value.Or(0))
	})
	for i := range list {
		jobs[i] = list[i].job
	}
}

// heading is the head of a column.
type heading struct {
	Head, Key, Link string
	Sorted          string // "ascending" or "descending"; empty: not by this column
	IsNumber        bool
}

// jobTable is a table of jobs.
type jobTable struct {
	Head []heading
	Rows [][]cell
}

// tableOfJobs returns the columns of jobs. values are the filter to which links add; nil: there are no links.
func (p *Pages) tableOfJobs(jobs []site.JobRow, shown []column, values map[string]string) (t jobTable) {
	for _, c := range shown {
		t.Head = append(t.Head, heading{Head: c.head, Key: c.key, IsNumber: c.isNumber})
	}
	for i := range jobs {
		row := make([]cell, len(shown))
		for k, c := range shown {
			row[k] = c.cell(p, &jobs[i])
			row[k].addLink(&c, &jobs[i], values)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// addLink adds the link to the jobs with the same value.
func (l *cell) addLink(c *column, j *site.JobRow, values map[string]string) {
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

// addSorting adds the links by which a list is sorted.
func (t *jobTable) addSorting(by sortKey, values map[string]string) {
	for i := range t.Head {
		h := &t.Head[i]
		next := sortKey{key: h.Key}
		if h.Key == by.key {
			next.isOther = !by.isOther
			isText := slices.Contains([]string{"cluster", "name", "user", "account", "partition", "outcome"}, h.Key)
			h.Sorted = "descending"
			if isText != by.isOther {
				h.Sorted = "ascending"
			}
		}
		h.Link = link("jobs", values, "sort", next.text())
	}
}

// shownColumns are the columns that a parameter names, or else the usual ones. The clusters are shown if there are
// several.
func shownColumns(chosen string, jobs []site.JobRow) (list []column) {
	keys := strings.Split(chosen, ",")
	hasClusters := slices.ContainsFunc(jobs, func(j site.JobRow) bool { return j.Cluster != jobs[0].Cluster })
	for _, c := range columns {
		isUseful := c.key != "cluster" || hasClusters
		isUsual := !c.isExtra && isUseful
		isShown := slices.Contains(keys, c.key)
		if chosen == "" {
			isShown = isUsual
		}
		if isShown || c.key == "job" {
			list = append(list, c)
		}
	}
	return list
}

// record is a row of a CSV. A spreadsheet would compute a text that begins like a formula.
func record(row []cell, shown []column) (fields []string) {
	for i, c := range shown {
		l := &row[i]
		v, isKnown := l.Value.Get()
		isFigure := c.isNumber || l.Share != nil
		switch {
		case !l.At.IsZero():
			fields = append(fields, l.At.UTC().Format(time.RFC3339))
		case isFigure && isKnown:
			fields = append(fields, strconv.FormatFloat(v, 'f', -1, 64))
		case isFigure:
			fields = append(fields, "")
		default:
			fields = append(fields, printable.Cell(l.Text))
		}
	}
	return fields
}
