package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

const (
	mostCSV = 12 // links to the CSV of runs

	refresh = "60" // seconds after which a browser loads the page of a running job again
)

// jobPage is a job without its report.
type jobPage struct {
	Why   string // there is no report
	Jobs  jobRows
	Runs  []runRow
	Links []site.Link
	// IsPartial is set if there are more runs.
	IsPartial                  bool
	IsByWaste                  bool
	ByStart, ByWaste, Name     string
	User, Account, JobsOfOwner string
	Share                      string // address; empty: the reader may not share the job
}

// runRow is a run in a table.
type runRow struct {
	Label, Node, Attempt, Outcome, Start, Elapsed string
	Links                                         []site.Link
}

// linkOf returns a link to a page of a job.
func (r request) linkOf(page string, f *sitereport.Found) string {
	if r.share != "" {
		return link(page, map[string]string{"share": r.share})
	}
	return jobLink(page, f.Cluster.Or(""), f.ID, f.Generation)
}

// find returns the job of a request.
func (p *Pages) find(r request) (*sitereport.Found, error) {
	q := r.URL.Query()
	id, err := strconv.ParseUint(q.Get("id"), 10, 63)
	if err != nil || id > site.MaxID {
		return nil, badRequest("The id of a job is a number of at most 18 digits.")
	}
	var generation int64
	if text := q.Get("generation"); text != "" {
		generation, err = strconv.ParseInt(text, 10, 64)
		if err != nil || generation < 1 {
			return nil, badRequest("The generation of a job is a number from 1 on.")
		}
	}
	query := sitereport.Query{Job: strconv.FormatUint(id, 10), Cluster: rt.Some(q.Get("cluster")), Generation: generation}
	if text := q.Get("member"); text != "" {
		query.Member, err = strconv.ParseUint(text, 10, 63)
		if err != nil {
			return nil, badRequest("The member of a job is the id of one of its tasks.")
		}
	}
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
	if f.HasLive() {
		w.Header().Set("Refresh", refresh)
	}
	var b bytes.Buffer
	if err := p.found.Report(r.Context(), &b, r.reader, f, site.FormHTML, p.links(r, f, true)); err != nil {
		return p.jobWithout(w, r, f, err)
	}
	w.Header().Set("Content-Security-Policy", p.conf.ReportPolicy+"; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w) // the client has closed the connection
	return nil
}

// jobWithout answers with the tables of a job, and why there is no report.
func (p *Pages) jobWithout(w http.ResponseWriter, r request, f *sitereport.Found, why error) error {
	hasFiles := !errors.Is(why, site.ErrNoReport)
	page := jobPage{IsPartial: f.IsPartial, Links: p.links(r, f, hasFiles)}
	switch {
	case errors.Is(why, site.ErrNoReport):
		page.Why = reasonOf(why)
	case errors.Is(why, site.ErrBusy):
		page.Why = "Other reports are being made: load this page again in a few seconds."
	default:
		page.Why = "The report cannot be made. The log of the service describes the error."
		p.conf.Fault(fmt.Errorf("make the report of job %d: %w", f.ID, why))
	}
	page.Jobs = rowsOf(f.Jobs)
	for _, run := range f.Runs {
		page.Runs = append(page.Runs, runRowOf(run))
	}
	if p.conf.Sessions.CanShare(r.reader) {
		page.Share = r.linkOf("share", f)
	}
	if r.share != "" {
		page.withoutLinks()
	}
	return p.show(r, w, "job.html.tmpl", fmt.Sprintf("Job %d", f.ID), page)
}

// reasonOf is the text of an error that wraps site.ErrNoReport, as a sentence.
func reasonOf(err error) string { return "T" + err.Error()[1:] + "." }

func runRowOf(run site.StoredRun) runRow {
	row := runRow{Label: dash, Node: dash, Outcome: dash, Start: moment(run.Created), Elapsed: dash, Links: filesOf(run)}
	if record := run.Record; record != nil {
		row.Label, row.Node, row.Attempt = printable.Text(record.Label()), printable.Text(record.Node), strconv.FormatUint(record.Attempt, 10)
		said := summaryOf(run)
		row.Outcome, row.Start = report.WithSlurmState(outcomeOf(record.State, record.Outcome), printable.Text(said.SlurmState)), moment(record.Start)
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

// links returns the links of the page of a job. hasFiles is not set if the report cannot be made.
func (p *Pages) links(r request, f *sitereport.Found, hasFiles bool) []site.Link {
	files := []site.Link{{Text: "Download:"}}
	if hasFiles {
		files = append(files, site.Link{Text: "HTML", URL: r.linkOf("report.html", f)}, site.Link{Text: "JSON", URL: r.linkOf("report.json", f)})
	}
	if r.share != "" {
		return files
	}
	list := []site.Link{{Text: "Jobs", URL: "jobs"}, {Text: "Users", URL: "users"}, {Text: "Accounts", URL: "accounts"}}
	if r.reader.Operator {
		list = append(list, site.Link{Text: "Nodes", URL: "nodes"})
	}
	if p.conf.Sessions.CanShare(r.reader) {
		list = append(list, site.Link{Text: "Share", URL: r.linkOf("share", f)})
	}
	if r.reader.By == "session" {
		list = append(list, site.Link{Text: "Log out", URL: "logout"})
	}
	list = append(list, files...)
	runs := f.Reported()
	for i, run := range runs {
		if i == mostCSV {
			break
		}
		text := "CSV of " + printable.Text(cmp.Or(run.Record.Node, "-"))
		if run.Record.ArrayTaskID.Valid() {
			text = "CSV of " + printable.Text(run.Record.Label()) + " on " + printable.Text(cmp.Or(run.Record.Node, "-"))
		}
		list = append(list, site.Link{Text: text, URL: "v1/runs/" + run.ID + "/csv"})
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
	if err := p.found.Report(r.Context(), &b, r.reader, f, form, nil); err != nil {
		return err
	}
	if form == site.FormHTML {
		w.Header().Set("Content-Security-Policy", p.conf.ReportPolicy+"; frame-ancestors 'none'")
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d%s"`, f.ID, end))
	_, _ = b.WriteTo(w) // the client has closed the connection
	return nil
}
