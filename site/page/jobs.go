package page

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
)

const (
	pageJobs   = 50
	mostSorted = 4000                   // jobs that are sorted in an order that no index has, and of a CSV
	searchTime = 150 * time.Millisecond // after it the search of a page is not continued
	fileTime   = time.Hour              // as searchTime, for a file: it is complete
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
)

// jobsPage is the list of jobs.
type jobsPage struct {
	Query            map[string]string // the values of the form
	States, Outcomes []choice
	Chips            []site.Link
	listView
	Next, First string // links; empty: there is none
	HasFilter   bool   // apart from the order
	IsPartial   bool   // the search has not seen all jobs yet
	IsByWaste   bool
	OfNewest    string // so many jobs were found and sorted; empty: all
	Newest      string // link to the list in the order in which the search can be continued
}

// fields are the parameters of the list of jobs, apart from the cursor. The last ones select no jobs.
var fields = []string{"job", "name", "user", "account", "partition", "node", "state", "outcome", "since", "until", "sort", "cols"}

// views are the fields that select no jobs.
var views = []string{"sort", "cols"}

const maxText = 200 // characters of a parameter

// valuesOf returns the parameters of a query that have these names and a value.
func valuesOf(r request, names []string) (values map[string]string, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("The query of the address is malformed.")
	}
	values = map[string]string{}
	for _, name := range names {
		v := query.Get(name)
		if !utf8.ValidString(v) || utf8.RuneCountInString(v) > maxText {
			return nil, badRequest("The field %s must be a text of at most %d characters.", name, maxText)
		}
		if v != "" {
			values[name] = v
		}
	}
	return values, nil
}

// filterOf returns the filter of a query, and its values for the form.
func filterOf(r request) (f site.Filter, values map[string]string, err error) {
	values, err = valuesOf(r, fields)
	if err != nil {
		return f, nil, err
	}
	f = site.Filter{
		Partitions: some(values["partition"]), Users: some(values["user"]), Accounts: some(values["account"]),
		Name: values["name"], Node: values["node"], State: rt.State(values["state"]), Outcome: values["outcome"], Access: r.access,
	}
	for _, one := range []struct {
		name string
		of   []choice
	}{{"state", states}, {"outcome", outcomes}} {
		isPossible := slices.ContainsFunc(one.of, func(c choice) bool { return c.Value == values[one.name] })
		if !isPossible {
			return f, nil, badRequest("The field %s has a value that is not possible.", one.name)
		}
	}
	if name := values["job"]; name != "" {
		if !jobName.MatchString(name) {
			return f, nil, errNoJobName
		}
		f.JobID = spool.JobNumber(name)
		if strings.ContainsRune(name, '_') {
			f.Label = name
		}
	}
	f.Since, err = day(values["since"], 0)
	if err == nil {
		f.Until, err = day(values["until"], 1)
	}
	return f, values, err
}

// jobName matches the names that squeue and the lists print: 4711, 4_3, 12+1.
var jobName = regexp.MustCompile(`^[0-9]{1,18}([_+][0-9]{1,9})?$`)

var errNoJobName = badRequest("A job is named as in squeue: 4711, 4_3 or 12+1. Its number has at most 18 digits.")

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

// orderedFilter is filterOf, with the order of the list.
func orderedFilter(r request) (f site.Filter, values map[string]string, by sortKey, err error) {
	f, values, err = filterOf(r)
	if err == nil {
		by, err = jobList.order(values["sort"])
	}
	if err == nil {
		f.Sort, _ = inIndex(by)
	}
	return f, values, by, err
}

func (p *Pages) jobs(w http.ResponseWriter, r request) error {
	f, values, by, err := orderedFilter(r)
	if err != nil {
		return err
	}
	if to := jobList.short(r, values); to != "" {
		return seeOther(w, to)
	}
	cursor := r.URL.Query().Get("cursor")
	found, next, ofNewest, err := p.list(r.Context(), f, by, cursor)
	if err != nil {
		return err
	}
	page := jobsPage{
		Query: values, States: states, Outcomes: outcomes, Chips: chipsOf(values),
		IsPartial: len(found) < pageJobs && next != "", IsByWaste: by.key == "waste",
		OfNewest: ofNewest, Newest: link("jobs", values, "sort", ""),
	}
	page.listView = jobList.view(p.tableOfJobs(found, jobList.shown(values["cols"], found), values), by, values)
	page.HasFilter = len(page.Chips) > 0
	if next != "" {
		page.Next = link("jobs", values, "cursor", next)
	}
	if cursor != "" {
		page.First = page.Self
	}
	return p.frame(r.Request, r.reader, "Jobs").refreshed(f.State == rt.StateRunning).write(w, http.StatusOK, "jobs.html.tmpl", page)
}

// chipsOf are the values that select jobs, each with the link to the list without it.
func chipsOf(values map[string]string) (list []site.Link) {
	for _, name := range fields {
		if v := values[name]; v != "" && !slices.Contains(views, name) {
			list = append(list, site.Link{Text: name + ": " + printable.Text(v), URL: link("jobs", values, name, "")})
		}
	}
	return list
}

// jobsFile answers with the jobs of a list as CSV, in its order and with its columns.
func (p *Pages) jobsFile(w http.ResponseWriter, r request) error {
	f, values, by, err := orderedFilter(r)
	if err != nil {
		return err
	}
	jobs, next, err := p.searchFor(r.Context(), f, "", mostSorted+1, fileTime)
	if err != nil {
		return err
	}
	if _, isSorted := inIndex(by); !isSorted {
		jobList.sort(p, jobs, by)
	}
	isWhole := len(jobs) <= mostSorted && next == ""
	return jobList.writeCSV(p, w, jobs, jobList.shown(values["cols"], jobs), isWhole)
}

// list returns the jobs of one page in an order. In an order that no index has, it sorts the newest jobs; ofNewest is
// their number if the search has not seen all jobs. Its cursor is then a number of jobs.
func (p *Pages) list(ctx context.Context, f site.Filter, by sortKey, cursor string) (found []site.JobRow, next, ofNewest string, err error) {
	if _, isSorted := inIndex(by); isSorted {
		found, next, err = p.search(ctx, f, cursor, pageJobs)
		return found, next, "", err
	}
	from := 0
	if cursor != "" {
		from, err = strconv.Atoi(cursor)
		if err != nil || from < 0 {
			return nil, "", "", site.ErrCursor
		}
	}
	found, rest, err := p.search(ctx, f, "", mostSorted)
	if err != nil {
		return nil, "", "", err
	}
	if rest != "" {
		ofNewest = grouped(int64(len(found)))
	}
	jobList.sort(p, found, by)
	end := min(len(found), from+pageJobs)
	if end < len(found) {
		next = strconv.Itoa(end)
	}
	return found[min(from, end):end], next, ofNewest, nil
}

// search returns at most limit jobs. If it ends after its time with fewer, next is not empty.
func (p *Pages) search(ctx context.Context, f site.Filter, cursor string, limit int) (found []site.JobRow, next string, err error) {
	return p.searchFor(ctx, f, cursor, limit, p.searchTime)
}

// searchFor is search with another time. One call of the registry may find fewer jobs than there are, because it examines a
// part of them.
func (p *Pages) searchFor(ctx context.Context, f site.Filter, cursor string, limit int, most time.Duration) (found []site.JobRow, next string, err error) {
	next = cursor
	for begin := time.Now(); ; {
		var jobs []site.JobRow
		jobs, next, err = p.conf.Registry.Jobs.List(ctx, f, next, limit-len(found))
		if err != nil {
			return nil, "", err
		}
		found = append(found, jobs...)
		isDone := next == "" || len(found) >= limit || time.Since(begin) > most
		if isDone {
			return found, next, nil
		}
	}
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

// jobLink returns a link to a page of a job; a generation of 0 is the newest job with the name.
func jobLink(page, cluster, name string, generation int64) string {
	values := map[string]string{"id": name}
	if generation > 0 {
		values["generation"] = strconv.FormatInt(generation, 10)
	}
	return link(page, values, "cluster", cluster)
}

// nameOfRow names the job of a row. The last task of an array has the number of the array, so it needs its own name.
func nameOfRow(j *site.JobRow) string {
	if strings.ContainsRune(j.Label, '_') {
		return j.Label
	}
	return strconv.FormatUint(j.JobID, 10)
}

func linkOfRow(j *site.JobRow) string { return jobLink("job", j.Cluster, nameOfRow(j), j.Generation) }
