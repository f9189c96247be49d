package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

const (
	mostCSV   = 12     // links to the CSV of runs
	mostTasks = 10_000 // of an array

	refresh = "60" // seconds after which a browser loads the page of a running job again
)

// jobPage is a job with its report, or without one.
type jobPage struct {
	Report    template.HTML // empty: there is none
	Why       string        // there is no report
	Table     table
	Runs      []runRow
	IsPartial bool // there are more runs
	Tasks     []task
	TasksCut  string // the tasks that are shown; empty: all
	History   []history
	OfName    string // link to the jobs of the same name
	Compare   string // link to the comparison with the run before; empty: there is none
	Files     []site.Link
	CSV       []site.Link
	Share     string // address; empty: the reader may not share the job
}

// task is a task of an array in a map of all of its tasks.
type task struct{ Text, Link, Class string }

// runRow is a run in a table.
type runRow struct {
	Label, Node, Attempt, Outcome, Elapsed string
	Start                                  time.Time
	Links                                  []site.Link
}

// linkOf returns a link to a page of a job.
func (r request) linkOf(page string, f *sitereport.Found) string {
	if r.share != "" {
		return link(page, map[string]string{"share": r.share})
	}
	return withMember(jobLink(page, f.Cluster.Or(""), f.Job, f.Generation), f.Member)
}

// withMember adds to a link to an array the id of the task that has the generation, if the array has none.
func withMember(link string, member uint64) string {
	if member == 0 {
		return link
	}
	return link + "&member=" + strconv.FormatUint(member, 10)
}

// find returns the job of a request.
func (p *Pages) find(r request) (*sitereport.Found, error) {
	q := r.URL.Query()
	if !jobName.MatchString(q.Get("id")) {
		return nil, errNoJobName
	}
	var generation int64
	if text := q.Get("generation"); text != "" {
		var err error
		generation, err = strconv.ParseInt(text, 10, 64)
		if err != nil || generation < 1 {
			return nil, badRequest("The generation of a job is a number from 1 on.")
		}
	}
	query := sitereport.Query{Job: q.Get("id"), Cluster: rt.Some(q.Get("cluster")), Generation: generation}
	if text := q.Get("member"); text != "" {
		var err error
		query.Member, err = strconv.ParseUint(text, 10, 63)
		if err != nil {
			return nil, badRequest("The member of a job is the id of one of its tasks.")
		}
	}
	return p.findJob(r, query)
}

func (p *Pages) findJob(r request, query sitereport.Query) (*sitereport.Found, error) {
	f, err := p.found.Find(r.Context(), r.reader, query)
	if errors.Is(err, site.ErrNotFound) {
		return nil, errAbsent
	}
	return f, err
}

// job answers with the report of a job, or without one if none can be made.
func (p *Pages) job(w http.ResponseWriter, r request) error {
	f, err := p.find(r)
	if err != nil {
		return err
	}
	page, err := p.jobPage(r, f)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = p.found.Report(r.Context(), &b, r.reader, f, site.FormPart)
	if err != nil {
		p.addTables(&page, r, f, err)
	} else {
		page.Report = template.HTML(b.String()) //nolint:gosec // the report is HTML of our own, in which texts are escaped
		w.Header().Set("Content-Security-Policy", "default-src 'none'; "+p.conf.PartPolicy+"; "+otherPolicy)
	}
	frame := p.frame(r.Request, r.reader, "Job "+f.Job).refreshed(f.HasLive())
	frame.IsTitled = err == nil
	return frame.write(w, http.StatusOK, "job.html.tmpl", page)
}

// jobPage returns what the page of a job has with and without a report.
func (p *Pages) jobPage(r request, f *sitereport.Found) (page jobPage, err error) {
	page = jobPage{Files: []site.Link{{Text: "HTML", URL: r.linkOf("report.html", f)}, {Text: "JSON", URL: r.linkOf("report.json", f)}}}
	if r.share != "" {
		return page, nil
	}
	page.History, err = p.historyOf(r, f)
	if err != nil {
		return page, err
	}
	if len(page.History) > 0 {
		page.Compare = r.linkOf("compare", f)
		page.OfName = link("jobs", map[string]string{"name": f.Jobs[0].Name, "user": f.Jobs[0].User})
	}
	if p.conf.Sessions.CanShare(r.reader) {
		page.Share = r.linkOf("share", f)
	}
	isArray := len(f.Jobs) > 1 && strings.ContainsRune(f.Jobs[0].Label, '_')
	if isArray {
		err = p.addTasks(r, f, &page)
	}
	for _, run := range f.Reported() {
		if len(page.CSV) == mostCSV {
			break
		}
		text := printable.Text(cmp.Or(run.Record.Node, "-"))
		if run.Record.ArrayTaskID.Valid() {
			text = printable.Text(run.Record.Label()) + " on " + text
		}
		page.CSV = append(page.CSV, site.Link{Text: "CSV of " + text, URL: "v1/runs/" + run.ID + "/csv"})
	}
	return page, err
}

// addTasks adds the map of the tasks of an array.
func (p *Pages) addTasks(r request, f *sitereport.Found, page *jobPage) error {
	jobs, isCut, err := p.found.Tasks(r.Context(), r.reader, f, mostTasks)
	if isCut {
		page.TasksCut = "the newest " + grouped(mostTasks) + " tasks"
	}
	for i := len(jobs) - 1; i >= 0; i-- {
		j := &jobs[i]
		cpu := jobList.column("cpu").cell(p, j)
		level := p.conf.Colors.OfOutcome(j.Outcome)
		if level != report.Harmful {
			level = cpu.Share.Level
		}
		page.Tasks = append(page.Tasks, task{printable.Text(j.Label) + ": " + outcomeOf(j.State, j.Outcome) + ", CPU " + cpu.Text, linkOfRow(j), level.Name()})
	}
	return err
}

// addTables adds the tables of a job, and why there is no report.
func (p *Pages) addTables(page *jobPage, r request, f *sitereport.Found, why error) {
	page.IsPartial = f.IsPartial
	switch {
	case errors.Is(why, site.ErrNoReport):
		page.Why, page.Files = reasonOf(why), nil
	case errors.Is(why, site.ErrBusy):
		page.Why = "Other reports are being made: load this page again in a few seconds."
	default:
		page.Why = "The report cannot be made. The log of the service describes the error."
		p.conf.Fault(fmt.Errorf("make the report of job %s: %w", f.Job, why))
	}
	values := map[string]string{}
	if r.share != "" {
		values = nil
	}
	page.Table = p.tableOfJobs(f.Jobs, jobList.shown("", f.Jobs), values)
	for _, run := range f.Runs {
		page.Runs = append(page.Runs, runRowOf(run))
	}
	if r.share != "" {
		page.withoutLinks()
	}
}

// reasonOf is the text of an error that wraps site.ErrNoReport, as a sentence.
func reasonOf(err error) string { return "T" + err.Error()[1:] + "." }

func runRowOf(run site.StoredRun) runRow {
	row := runRow{Label: dash, Node: dash, Outcome: dash, Start: run.Created, Elapsed: dash, Links: filesOf(run)}
	if record := run.Record; record != nil {
		row.Label, row.Node, row.Attempt = printable.Text(record.Label()), printable.Text(record.Node), strconv.FormatUint(record.Attempt, 10)
		said := summaryOf(run)
		row.Outcome, row.Start = report.WithSlurmState(outcomeOf(record.State, record.Outcome), printable.Text(said.SlurmState)), record.Start
		if !record.End.IsZero() {
			row.Elapsed = elapsed(record.Start, record.End, said.SuspendedSecs)
		}
	}
	return row
}

// filesOf returns the links to the files of a run.
func filesOf(run site.StoredRun) []site.Link {
	base := "v1/runs/" + run.ID
	list := []site.Link{{Text: "CSV", URL: base + "/csv"}, {Text: "JSON", URL: base}}
	if run.Held.RecordBytes > 0 {
		list = append(list, site.Link{Text: "record", URL: base + "/record"})
	}
	return list
}

// reportFile answers with the report of a job as a file.
func (p *Pages) reportFile(w http.ResponseWriter, r request) error {
	f, err := p.find(r)
	if err != nil {
		return err
	}
	end, form, kind := path.Ext(r.URL.Path), site.FormJSON, "application/json"
	if end == ".html" {
		form, kind = site.FormHTML, "text/html; charset=utf-8"
	}
	var b bytes.Buffer
	if err := p.found.Report(r.Context(), &b, r.reader, f, form); err != nil {
		return err
	}
	if form == site.FormHTML {
		w.Header().Set("Content-Security-Policy", p.conf.ReportPolicy+"; frame-ancestors 'none'")
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%s%s"`, f.Job, end))
	_, _ = b.WriteTo(w) // the client has closed the connection
	return nil
}
