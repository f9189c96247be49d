package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

const (
	mostRuns    = site.MaxReportRuns // on one page
	mostEarlier = 100                // runs for the advice
	batchRuns   = 50
	mostCSV     = 12 // links to the CSV of runs

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
}

// runRow is a run in a table.
type runRow struct {
	Label, Node, Attempt, Outcome, Start, Elapsed string
	Links                                         []site.Link
}

// wanted is the job of a request with its runs.
type wanted struct {
	cluster    string
	id         uint64
	generation int64 // 0: the newest job with the id
	jobs       []site.JobRow
	runs       []site.StoredRun
	isPartial  bool
}

// link returns a link to a page of the job.
func (f *wanted) link(page string) string { return jobLink(page, f.cluster, f.id, f.generation) }

// find returns the job of a request, all tasks of an array, or all components of a heterogeneous job.
func (p *Pages) find(r request) (f wanted, err error) {
	q := r.URL.Query()
	f.cluster = q.Get("cluster")
	f.id, err = strconv.ParseUint(q.Get("id"), 10, 63)
	if err != nil || f.id > site.MaxID {
		return f, badRequest("The id of a job is a number of at most 18 digits.")
	}
	if text := q.Get("generation"); text != "" {
		f.generation, err = strconv.ParseInt(text, 10, 64)
		if err != nil || f.generation < 1 {
			return f, badRequest("The generation of a job is a number from 1 on.")
		}
	}
	rows, err := p.rowsWithID(r, &f)
	if err != nil {
		return f, err
	}
	f.jobs = oneJob(rows, f.id, f.generation)
	for _, j := range f.jobs {
		if len(f.runs) == mostRuns {
			f.isPartial = true
			break
		}
		if err := p.addRuns(r, &f, j); err != nil {
			return f, err
		}
	}
	if len(f.runs) == 0 && !f.hasLive() {
		return f, errAbsent
	}
	for _, j := range f.jobs {
		if err := p.conf.Registry.Live.Want(r.Context(), j, time.Now()); err != nil {
			p.conf.Fault(err)
		}
	}
	return f, nil
}

// hasLive reports whether nodes have runs of the job that they have not delivered yet.
func (f *wanted) hasLive() bool {
	return slices.ContainsFunc(f.jobs, func(j site.JobRow) bool { return len(j.Live) > 0 })
}

// rowsWithID returns the rows of the jobs with the id, and of arrays and heterogeneous jobs with it, the newest first.
func (p *Pages) rowsWithID(r request, f *wanted) (rows []site.JobRow, err error) {
	filter := site.Filter{Cluster: f.cluster, JobID: rt.Some(f.id), Access: r.access}
	all := site.AllPages(func(cursor string) ([]site.JobRow, string, error) {
		return p.conf.Registry.Jobs.List(r.Context(), filter, cursor, mostRuns)
	})
	for j, err := range all {
		switch {
		case err != nil:
			return nil, err
		case j.Cluster != f.cluster:
			continue
		case len(rows) == mostRuns:
			f.isPartial = true
			return rows, nil
		}
		rows = append(rows, j)
	}
	return rows, nil
}

// oneJob returns the rows of one job, with the tasks of its array. Slurm uses ids again, and a
// reader of all jobs sees each job that has had the id. The job has the row of this generation, or
// else is the newest one. rows are sorted, the newest first.
func oneJob(rows []site.JobRow, id uint64, generation int64) []site.JobRow {
	var jobs [][]site.JobRow
	for _, row := range rows {
		k := slices.IndexFunc(jobs, func(job []site.JobRow) bool { return isOfOneJob(job, &row) })
		if k < 0 {
			jobs = append(jobs, nil)
			k = len(jobs) - 1
		}
		jobs[k] = append(jobs[k], row)
	}
	for _, job := range jobs {
		isWanted := func(row site.JobRow) bool { return row.JobID == id && row.Generation == generation }
		if generation == 0 || slices.ContainsFunc(job, isWanted) {
			return job
		}
	}
	return nil
}

// isOfOneJob reports whether an older row can be of the same array or heterogeneous job as others.
// Such a row has the same user, an id of its own, and a time not far from the others.
func isOfOneJob(job []site.JobRow, row *site.JobRow) bool {
	first := &job[len(job)-1]
	isFar := !row.End.IsZero() && first.Start.Sub(row.End) > rt.SameJob
	hasID := slices.ContainsFunc(job, func(other site.JobRow) bool { return other.JobID == row.JobID })
	isSameUser := first.User == row.User || first.User == "" || row.User == ""
	return isSameUser && !isFar && !hasID
}

// addRuns adds the runs of a job.
func (p *Pages) addRuns(r request, f *wanted, j site.JobRow) error {
	all := site.AllPages(func(cursor string) ([]site.StoredRun, string, error) {
		return p.conf.Registry.Visible.OfJob(r.Context(), j, r.access, cursor, batchRuns)
	})
	for run, err := range all {
		if err != nil {
			return err
		}
		if len(f.runs) == mostRuns {
			f.isPartial = true
			return nil
		}
		f.runs = append(f.runs, run)
	}
	return nil
}

// reported returns the runs that make a report: runs of whole jobs with a record, or else of steps.
// Runs that a user has delivered count only if no node has any.
func (f *wanted) reported() (list []site.StoredRun) {
	isWhole := func(r site.StoredRun) bool { return r.Record != nil && r.Record.Step == "" }
	isOfNode := func(r site.StoredRun) bool { return r.Record != nil && !site.IsOwnerOfUser(r.Owner) }
	onlyWhole, onlyNodes := slices.ContainsFunc(f.runs, isWhole), slices.ContainsFunc(f.runs, isOfNode)
	list = bestCopies(slices.DeleteFunc(slices.Clone(f.runs), func(run site.StoredRun) bool {
		return (onlyWhole && !isWhole(run)) || (onlyNodes && !isOfNode(run))
	}))
	list = slices.DeleteFunc(list, func(run site.StoredRun) bool { return run.Held.RecordBytes == 0 })
	slices.SortStableFunc(list, func(a, b site.StoredRun) int {
		return cmp.Or(cmp.Compare(a.Record.ArrayTaskID.Or(0), b.Record.ArrayTaskID.Or(0)), cmp.Compare(a.Record.HetJobOffset.Or(0), b.Record.HetJobOffset.Or(0)),
			cmp.Compare(a.Record.Attempt, b.Record.Attempt), cmp.Compare(a.Record.Node, b.Record.Node))
	})
	return list
}

// bestCopies returns the best registration of each run with a record. Two owners' runs are
// different runs.
func bestCopies(runs []site.StoredRun) (list []site.StoredRun) {
	at := map[string]int{}
	for _, run := range runs {
		if run.Record == nil {
			continue
		}
		name := run.Owner + "/" + run.Record.FileStem()
		k, isThere := at[name]
		switch {
		case !isThere:
			at[name] = len(list)
			list = append(list, run)
		case run.Copy().Better(list[k].Copy()):
			list[k] = run
		}
	}
	return list
}

// report returns what is needed for the report of a job.
func (p *Pages) report(r request, f *wanted) (out site.Report, err error) {
	out = site.Report{Name: strconv.FormatUint(f.id, 10), Reader: r.reader.Name, Runs: f.reported()}
	switch {
	case p.conf.Report == nil:
		return out, fmt.Errorf("%w: this service makes none", site.ErrNoReport)
	case f.isPartial:
		return out, fmt.Errorf("%w: the job has more than %d runs; rt-spool report has no such limit, and with --array it summarizes the tasks of an array", site.ErrNoReport, mostRuns)
	case len(out.Runs) == 0 && f.hasLive():
		return out, fmt.Errorf("%w yet: the job has run since %s, and its readings arrive within 2 minutes", site.ErrNoReport, moment(f.jobs[0].Start))
	case len(out.Runs) == 0:
		return out, fmt.Errorf("%w: no complete record of the job has arrived", site.ErrNoReport)
	}
	first := out.Runs[0].Record
	isNamed := first.User != "" && first.Meta.JobName != ""
	if !isNamed {
		return out, nil
	}
	last := out.Runs[0].Record.Start
	filter := site.Filter{Cluster: f.cluster, Users: []string{first.User}, Name: first.Meta.JobName, Until: last, Access: r.access}
	jobs, _, err := p.conf.Registry.Jobs.List(r.Context(), filter, "", batchRuns)
	if err != nil {
		return out, err
	}
	for _, j := range jobs {
		runs, _, err := p.conf.Registry.Visible.OfJob(r.Context(), j, r.access, "", batchRuns)
		if err != nil {
			return out, err
		}
		for _, run := range bestCopies(runs) {
			isSample := run.Finish != nil && run.Record.Meta.JobName == first.Meta.JobName && run.Record.Step == ""
			if isSample {
				out.Earlier = append(out.Earlier, run)
			}
		}
		if len(out.Earlier) >= mostEarlier {
			break
		}
	}
	return out, nil
}

// job answers with the report of a job, or without one if none can be made.
func (p *Pages) job(w http.ResponseWriter, r request) error {
	f, err := p.find(r)
	if err != nil {
		return err
	}
	if f.hasLive() {
		w.Header().Set("Refresh", refresh)
	}
	report, err := p.report(r, &f)
	var b bytes.Buffer
	if err == nil {
		report.Form, report.Links = site.FormHTML, p.links(r, &f, true)
		err = p.conf.Report(r.Context(), &b, report)
	}
	if err != nil {
		return p.jobWithout(w, r, &f, err)
	}
	w.Header().Set("Content-Security-Policy", p.conf.ReportPolicy+"; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w) // the client has closed the connection
	return nil
}

// jobWithout answers with the tables of a job, and why there is no report.
func (p *Pages) jobWithout(w http.ResponseWriter, r request, f *wanted, why error) error {
	hasFiles := !errors.Is(why, site.ErrNoReport)
	page := jobPage{IsPartial: f.isPartial, Links: p.links(r, f, hasFiles)}
	switch {
	case errors.Is(why, site.ErrNoReport):
		page.Why = reasonOf(why)
	case errors.Is(why, site.ErrBusy):
		page.Why = "Other reports are being made: load this page again in a few seconds."
	default:
		page.Why = "The report cannot be made. The log of the service describes the error."
		p.conf.Fault(fmt.Errorf("make the report of job %d: %w", f.id, why))
	}
	page.Jobs = rowsOf(f.jobs)
	for _, run := range f.runs {
		page.Runs = append(page.Runs, runRowOf(run))
	}
	return p.show(r, w, "job.html.tmpl", fmt.Sprintf("Job %d", f.id), page)
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
func (p *Pages) links(r request, f *wanted, hasFiles bool) []site.Link {
	list := []site.Link{{Text: "Jobs", URL: "jobs"}, {Text: "Users", URL: "users"}, {Text: "Accounts", URL: "accounts"}}
	if r.reader.Operator {
		list = append(list, site.Link{Text: "Nodes", URL: "nodes"})
	}
	list = append(list, site.Link{Text: "Download:"})
	runs := f.reported()
	if hasFiles {
		list = append(list, site.Link{Text: "HTML", URL: f.link("report.html")}, site.Link{Text: "JSON", URL: f.link("report.json")})
	}
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
	report, err := p.report(r, &f)
	if err != nil {
		return err
	}
	end := path.Ext(r.URL.Path)
	kind := "application/json"
	report.Form = site.FormJSON
	if end == ".html" {
		report.Form, kind = site.FormHTML, "text/html; charset=utf-8"
	}
	var b bytes.Buffer
	if err := p.conf.Report(r.Context(), &b, report); err != nil {
		return err
	}
	if report.Form == site.FormHTML {
		w.Header().Set("Content-Security-Policy", p.conf.ReportPolicy+"; frame-ancestors 'none'")
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d%s"`, f.id, end))
	_, _ = b.WriteTo(w) // the client has closed the connection
	return nil
}
