package page

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

const (
	pageJobs   = 50
	searchTime = 150 * time.Millisecond // after it a search for more jobs is not continued
)

// choice is an option of a list in the form.
type choice struct{ Value, Text string }

var (
	states   = []choice{{"", "any state"}, {string(rt.StateRunning), "running"}, {string(rt.StateEnded), "ended"}}
	outcomes = []choice{
		{"", "any outcome"}, {string(rt.OutcomeFinished), "finished"}, {string(rt.OutcomeFailed), "failed"}, {string(rt.OutcomeCancelled), "cancelled"},
		{string(rt.OutcomeTimeout), "time limit"}, {string(rt.OutcomeOOM), "out of memory"}, {string(rt.OutcomeTerminated), "terminated"},
		{string(rt.OutcomeLost), "lost"}, {string(rt.OutcomeUnknown), "unknown"},
	}
	sorts = []choice{{string(site.ByStart), "newest first"}, {string(site.ByWaste), "most waste first"}}
)

// jobsPage is the list of jobs.
type jobsPage struct {
	Query                   map[string]string // the values of the form
	States, Outcomes, Sorts []choice
	Jobs                    jobRows
	Next, First             string // links; empty: there is none
	HasFilter               bool   // apart from the order
	IsPartial               bool   // the search has not seen all jobs yet
	IsByWaste               bool
	ByStart, ByWaste        string // links
}

// jobRow is a job in a table.
type jobRow struct {
	Link, Label, Name        string
	Cluster                  string
	User, Account, Partition string
	State, Outcome           string
	Start, Elapsed           string
	CPU, Memory, GPU         share
	CoreHours, Waste         string
	Nodes                    string
}

// jobRows are the rows of a table.
type jobRows []jobRow

// HasClusters reports whether the jobs are of several clusters.
func (l jobRows) HasClusters() bool {
	return slices.ContainsFunc(l, func(j jobRow) bool { return j.Cluster != l[0].Cluster })
}

// fields are the parameters of the list of jobs, apart from the cursor.
var fields = []string{"user", "account", "partition", "state", "outcome", "name", "node", "job", "since", "until", "sort"}

const maxText = 200 // characters of a parameter

// filterOf returns the filter of a query, and its values for the form.
func filterOf(r request) (f site.Filter, values map[string]string, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return f, nil, badRequest("The query of the address is malformed.")
	}
	values = map[string]string{}
	for _, name := range fields {
		v := query.Get(name)
		if !utf8.ValidString(v) || utf8.RuneCountInString(v) > maxText {
			return f, nil, badRequest("The field %s must be a text of at most %d characters.", name, maxText)
		}
		if v != "" {
			values[name] = v
		}
	}
	f = site.Filter{
		Sort: site.Sort(values["sort"]), Partitions: some(values["partition"]), Users: some(values["user"]), Accounts: some(values["account"]),
		Name: values["name"], Node: values["node"], State: rt.State(values["state"]), Outcome: values["outcome"], Access: r.access,
	}
	for _, one := range []struct {
		name string
		of   []choice
	}{{"sort", sorts}, {"state", states}, {"outcome", outcomes}} {
		isPossible := slices.ContainsFunc(one.of, func(c choice) bool { return c.Value == values[one.name] })
		if !isPossible {
			return f, nil, badRequest("The field %s has a value that is not possible.", one.name)
		}
	}
	if id := values["job"]; id != "" {
		n, err := strconv.ParseUint(id, 10, 63)
		if err != nil || n > site.MaxID {
			return f, nil, badRequest("The id of a job is a number of at most 18 digits.")
		}
		f.JobID.Set(n)
	}
	f.Since, err = day(values["since"], 0)
	if err == nil {
		f.Until, err = day(values["until"], 1)
	}
	return f, values, err
}

// day returns a time so many days after the beginning of a date in UTC; zero for an empty text.
func day(text string, later int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, badRequest("A date must have the form 2026-01-31.")
	}
	return at.AddDate(0, 0, later), nil
}

func some(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// link returns the link to a page with these values.
func link(page string, values map[string]string, more ...string) string {
	q := url.Values{}
	for name, v := range values {
		q.Set(name, v)
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
		if more[i+1] == "" {
			q.Del(more[i])
		}
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

func (p *Pages) jobs(w http.ResponseWriter, r request) error {
	f, values, err := filterOf(r)
	if err != nil {
		return err
	}
	cursor := r.URL.Query().Get("cursor")
	found, next, err := p.search(r.Context(), f, cursor)
	if err != nil {
		return err
	}
	page := jobsPage{
		Query: values, States: states, Outcomes: outcomes, Sorts: sorts, Jobs: rowsOf(found),
		IsPartial: len(found) < pageJobs && next != "", IsByWaste: f.Sort == site.ByWaste,
		ByStart: link("jobs", values, "sort", ""), ByWaste: link("jobs", values, "sort", string(site.ByWaste)),
	}
	for name := range values {
		page.HasFilter = page.HasFilter || name != "sort"
	}
	if next != "" {
		page.Next = link("jobs", values, "cursor", next)
	}
	if f.State == rt.StateRunning {
		w.Header().Set("Refresh", refresh)
	}
	if cursor != "" {
		page.First = link("jobs", values)
	}
	return p.show(r, w, "jobs.html.tmpl", "Jobs", page)
}

// search returns the jobs of one page. One call of the registry may find fewer, because it examines a part of
// the jobs.
func (p *Pages) search(ctx context.Context, f site.Filter, cursor string) (found []site.JobRow, next string, err error) {
	next = cursor
	for begin := time.Now(); ; {
		var jobs []site.JobRow
		jobs, next, err = p.conf.Registry.Jobs.List(ctx, f, next, pageJobs-len(found))
		if err != nil {
			return nil, "", err
		}
		found = append(found, jobs...)
		isDone := next == "" || len(found) >= pageJobs || time.Since(begin) > searchTime
		if isDone {
			return found, next, nil
		}
	}
}

// rowsOf returns the jobs as rows of a table.
func rowsOf(jobs []site.JobRow) (rows jobRows) {
	for _, j := range jobs {
		rows = append(rows, rowOf(j))
	}
	return rows
}

func rowOf(j site.JobRow) jobRow {
	end := j.End
	if j.State == rt.StateRunning {
		end = time.Now()
	}
	row := jobRow{
		Link: jobLink("job", j.Cluster, j.JobID, j.Generation), Label: printable.Text(j.Label), Name: printable.Text(j.Name), Cluster: printable.Text(j.Cluster),
		User: printable.Text(j.User), Account: printable.Text(j.Account), Partition: printable.Text(j.Partition), State: string(j.State),
		Outcome: report.WithSlurmState(outcomeOf(j.State, j.Outcome), printable.Text(j.SlurmState)), Start: moment(j.Start), Elapsed: elapsed(j.Start, end, j.SuspendedSecs),
		CPU: shareOf(j.CoreSecsUsed, j.CoreSecs, j.CoreMark), Memory: shareOf(j.MemorySecsUsed, j.MemorySecs, j.MemoryMark), GPU: shareOf(j.GPUSecsUsed, j.GPUSecs, report.Exact),
		CoreHours: hours(j.CoreSecs), Waste: dash,
	}
	if at := j.LastReading(); j.IsRunning() && !at.IsZero() {
		row.Outcome += ", read " + readAgo(at, time.Now())
	}
	if secs, ok := j.Waste.Get(); ok {
		row.Waste = j.WasteMark().Sign(hours(rt.Some(float64(secs))))
	}
	return row
}

// outcomeOf names how a job ended.
func outcomeOf(state rt.State, outcome rt.Outcome) string {
	if state == rt.StateRunning {
		return "running"
	}
	for _, c := range outcomes[1:] {
		if c.Value == string(outcome) {
			return c.Text
		}
	}
	return printable.Text(string(outcome))
}

// jobLink returns a link to a page of a job; a generation of 0 is the newest job with the id.
func jobLink(page, cluster string, id uint64, generation int64) string {
	values := map[string]string{"id": strconv.FormatUint(id, 10)}
	if generation > 0 {
		values["generation"] = strconv.FormatInt(generation, 10)
	}
	return link(page, values, "cluster", cluster)
}
