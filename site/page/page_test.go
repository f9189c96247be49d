package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// fake is a registry with a job of two nodes, and the reports of it.
type fake struct {
	nodes  []site.Node
	calls  int // of Jobs
	report error
	runs   int // of the job; 0: two, one of them registered twice

	runCalls int // of JobRuns
}

func (f *fake) Jobs(_ context.Context, filter site.Filter, cursor string, limit int) ([]site.JobRow, string, error) {
	f.calls++
	if filter.Name == "rare" && cursor != "4" { // the search examines a part of the jobs at a time
		return nil, fmt.Sprint(f.calls), nil
	}
	j := site.JobRow{Cluster: "c", JobID: 7, Generation: 1, User: "alice", Name: "Train", Label: "12_3", State: rt.StateEnded, Outcome: rt.OutcomeTimeout, Start: time.Unix(0, 0), End: time.Unix(90061, 0)}
	j.CoreSecs, j.CoreSecsUsed, j.Waste = rt.Some(7200.0), rt.Some(3600.0), rt.Some[int64](3600)
	return []site.JobRow{j}, "", nil
}

func (f *fake) JobRuns(context.Context, site.JobRow, *site.Access, string, int) (runs []site.Run, next string, err error) {
	f.runCalls++
	states := []rt.State{rt.StateRunning, rt.StateEnded, rt.StateEnded}
	if f.runs > 0 {
		states = slices.Repeat([]rt.State{rt.StateEnded}, f.runs)
	}
	for n, state := range states {
		record := &rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](7), Node: fmt.Sprint("n", max(n, 1))}, Ending: rt.Ending{State: state}}
		runs = append(runs, site.Run{ID: fmt.Sprint("run", n), Record: record, Held: site.Held{RecordBytes: 1}})
	}
	return runs, "", nil
}

func (f *fake) Totals(context.Context, site.Filter, site.Group) ([]site.Total, error) {
	return nil, errors.New("the database is gone")
}

func (f *fake) Nodes(context.Context, site.NodeFilter, string, int) ([]site.Node, string, error) {
	return f.nodes, "", nil
}

func (f *fake) HTML(_ context.Context, w io.Writer, r site.Report) (string, error) {
	for _, run := range r.Runs {
		fmt.Fprintln(w, run.ID)
	}
	return "default-src 'none'", f.report
}

func (f *fake) JSON(context.Context, io.Writer, site.Report) error { return f.report }

func (f *fake) Parquet(context.Context, io.Writer, site.Report) error { return f.report }

// get returns a page of an operator, and what was logged.
func (f *fake) get(t *testing.T, path string) (status int, body, log string) {
	t.Helper()
	p := New(Config{Registry: f, Reports: f, Fault: func(err error) { log += err.Error() }})
	w := httptest.NewRecorder()
	p.ServePage(w, httptest.NewRequest(http.MethodGet, path, nil), site.Reader{Operator: true})
	return w.Code, w.Body.String(), log
}

// Without a report the page of a job has its tables, and says why.
func TestJobWithoutReport(t *testing.T) {
	for _, c := range []struct {
		err       error
		want, log string
	}{
		{fmt.Errorf("%w: the job is too large", site.ErrNoReport), "There is no report: the job is too large.", ""},
		{site.ErrBusy, "load this page again", ""},
		{errors.New("exit status 1"), "The report cannot be made", "make the report of job 7: exit status 1"},
	} {
		status, body, log := (&fake{report: c.err}).get(t, "/job?cluster=c&id=7")
		hasTables := strings.Contains(body, "time limit") && strings.Contains(body, "1d 1:01:01") && strings.Contains(body, `href="v1/runs/run1/csv"`)
		if status != 200 || !strings.Contains(body, c.want) || !hasTables || log != c.log {
			t.Errorf("%v: %d, logged %q: %s", c.err, status, log, body)
		}
	}
	tooLarge := fmt.Errorf("%w: the job is too large", site.ErrNoReport)
	_, body, _ := (&fake{report: tooLarge}).get(t, "/job?cluster=c&id=7")
	for _, path := range []string{"report.json", "report.html", "parquet.zip"} {
		if strings.Contains(body, path) {
			t.Errorf("without a report the page of a job has a link to %s", path)
		}
		status, body, _ := (&fake{report: tooLarge}).get(t, "/"+path+"?cluster=c&id=7")
		if status != 404 || !strings.Contains(body, "There is no report: the job is too large.") {
			t.Errorf("%s without a report: %d %s", path, status, body)
		}
	}
	if status, _, _ := (&fake{report: site.ErrBusy}).get(t, "/report.json?cluster=c&id=7"); status != 503 {
		t.Errorf("a file while another report is made: %d", status)
	}
	if status, _, _ := (&fake{}).get(t, "/job?cluster=other&id=7"); status != 404 {
		t.Errorf("the job of another cluster: %d", status)
	}
}

// The page of a job with more runs than a report has says so, lists the first ones and has no dead links.
func TestJobWithTooManyRuns(t *testing.T) {
	for more, isPartial := range []bool{false, true} {
		status, body, _ := (&fake{runs: site.MaxReportRuns + more}).get(t, "/job?cluster=c&id=7")
		hasReason := strings.Contains(body, "There is no report: the job has more than 300 runs;")
		hasLink := isPartial && strings.Contains(body, "report.json")
		if status != 200 || hasReason != isPartial || hasLink {
			t.Errorf("%d runs: %d %.2000s", site.MaxReportRuns+more, status, body)
		}
	}
}

// A run that was registered twice is once in the report: the registration that has ended.
func TestReportHasEachRunOnce(t *testing.T) {
	status, body, _ := (&fake{}).get(t, "/report.html?cluster=c&id=7")
	if status != 200 || body != "run1\nrun2\n" {
		t.Errorf("%d %q", status, body)
	}
}

// A search that finds nothing at first is continued.
func TestSearchIsContinued(t *testing.T) {
	f := &fake{}
	if _, body, _ := f.get(t, "/jobs?name=rare"); f.calls != 5 || !strings.Contains(body, ">12_3</a>") {
		t.Errorf("after %d calls: %s", f.calls, body)
	}
}

// An error of the database is logged, and not shown.
func TestErrorsAreLogged(t *testing.T) {
	status, body, log := (&fake{}).get(t, "/users")
	if status != 500 || strings.Contains(body, "database") || log != "make the page /users: the database is gone" {
		t.Errorf("%d, logged %q: %s", status, log, body)
	}
}

// The totals refuse what they are not limited by: a figure for all partitions is none for one of them.
func TestTotalsRefuseOtherFields(t *testing.T) {
	for _, query := range []string{"partition=p", "name=n", "node=n1", "state=running", "outcome=failed", "job=7", "sort=waste"} {
		for _, path := range []string{"/users?", "/accounts?"} {
			field, _, _ := strings.Cut(query, "=")
			if status, body, _ := (&fake{}).get(t, path+query); status != 400 || !strings.Contains(body, "not by "+field) {
				t.Errorf("%s%s: %d %s", path, query, status, body)
			}
		}
	}
}

// A table of jobs of several clusters names them.
func TestClustersOfJobs(t *testing.T) {
	for more, isNamed := range []bool{false, true} {
		list := jobRows{{Cluster: "east"}, {Cluster: "east"}, {Cluster: "west"}}[:2+more]
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, "jobtable", jobsPage{Jobs: list}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "Cluster") != isNamed || strings.Contains(b.String(), "east") != isNamed {
			t.Errorf("%d clusters: %s", 1+more, b.String())
		}
	}
}

// The node with the most urgent problem is the first one.
func TestNodes(t *testing.T) {
	now := time.Now()
	node := func(name string, change func(*site.Node)) site.Node {
		n := site.Node{NodeState: site.NodeState{Node: name, Time: now}, Reported: now}
		change(&n)
		return n
	}
	f := &fake{nodes: []site.Node{
		node("sound", func(n *site.Node) {
			n.BreakerUntil, n.SpoolBytes, n.SpoolLimit = rt.Some(now.Add(-time.Hour)), rt.Some[int64](5), rt.Some[int64](10)
		}),
		node("failing", func(n *site.Node) { n.FailedDrains = rt.Some[int64](2) }),
		node("silent", func(n *site.Node) { n.Reported = now.Add(-7 * time.Hour) }),
		node("full", func(n *site.Node) { n.DiskBytes, n.DiskFree = rt.Some[int64](100), rt.Some[int64](5) }),
		node("filling", func(n *site.Node) { n.SpoolBytes, n.SpoolLimit = rt.Some[int64](8), rt.Some[int64](10) }),
		node("off", func(n *site.Node) { n.HooksDisabled = rt.Some(true) }),
		node("broken", func(n *site.Node) { n.BreakerUntil = rt.Some(now.Add(time.Hour)) }),
	}}
	_, body, _ := f.get(t, "/nodes")
	at := -1
	for _, want := range []string{">broken</a>", "breaker open", ">off</a>", "hooks are disabled: no job is tracked", ">full</a>", "disk of the spool 95 % full", ">filling</a>", "spool 80 % full", ">silent</a>", "no report for 7 h", ">failing</a>", "2 failed drains", ">sound</a>"} {
		next := strings.Index(body, want)
		if next <= at {
			t.Errorf("%q is not there, or too early: %s", want, body)
		}
		at = next
	}
	if _, body, _ := f.get(t, "/nodes?show=problems"); strings.Contains(body, "sound") || !strings.Contains(body, "6 of 7 nodes") {
		t.Errorf("the nodes with problems: %s", body)
	}
}

// Slurm uses ids again: two jobs with one id are two pages. Tasks of one array are one page.
func TestJobsWithOneID(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC) }
	row := func(id uint64, generation int64, user string, from, to int) site.JobRow {
		j := site.JobRow{Cluster: "c", JobID: id, Generation: generation, User: user, State: rt.StateEnded, Start: day(from)}
		if to > 0 {
			j.End = day(to)
		}
		return j
	}
	// The newest first: an array with one row for each task, whose last task has the id of the array.
	rows := []site.JobRow{
		row(7, 3, "alice", 101, 0), row(8, 2, "alice", 100, 101), row(7, 2, "bob", 99, 100),
		row(7, 1, "alice", 20, 21), row(9, 1, "alice", 19, 20), row(8, 1, "alice", 5, 15),
	}
	for _, tt := range []struct {
		generation int64
		want       string
	}{{0, "7.3 8.2"}, {3, "7.3 8.2"}, {2, "7.2"}, {1, "7.1 9.1 8.1"}, {4, ""}} {
		got := ""
		for _, j := range oneJob(rows, 7, tt.generation) {
			got += fmt.Sprintf(" %d.%d", j.JobID, j.Generation)
		}
		if strings.TrimSpace(got) != tt.want {
			t.Errorf("generation %d: %s, want %s", tt.generation, got, tt.want)
		}
	}
	for query, want := range map[string]int{"": 200, "&generation=1": 200, "&generation=2": 404, "&generation=0": 400, "&generation=x": 400} {
		if status, body, _ := (&fake{}).get(t, "/report.html?cluster=c&id=7"+query); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
