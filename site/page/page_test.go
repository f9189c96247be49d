package page

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// fake is a site with the job 7 of two nodes, and the reports of it.
type fake struct {
	*registry.Registry
	database string
	report   error
}

var start = time.Unix(0, 0)

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{database: filepath.Join(t.TempDir(), "registry.db")}
	r, err := registry.Open(t.Context(), f.database, registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	f.Registry = r
	f.add(t, 1, 1, rt.StateEnded)
	f.add(t, 2, 2, rt.StateEnded)
	return f
}

// add stores a run of the job.
func (f *fake) add(t *testing.T, n, node int, state rt.State) {
	t.Helper()
	record := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](7), ArrayJobID: rt.Some[uint64](12), ArrayTaskID: rt.Some[uint64](3), Node: fmt.Sprint("n", node), Start: start},
		Allocation: rt.Allocation{User: "alice"}, Meta: rt.Metadata{JobName: "Train"}, Ending: rt.Ending{State: state},
	}
	if state == rt.StateEnded {
		record.End, record.Outcome = start.Add(90061*time.Second), rt.OutcomeTimeout
	}
	id := fmt.Sprintf("run%03d", n)
	err := f.Runs.Create(t.Context(), site.StoredRun{ID: id, Created: start})
	_, failed := f.Runs.PutObject(t.Context(), site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: id}, []byte("r"), &record)
	if err := errors.Join(err, failed); err != nil {
		t.Error(err)
	}
}

// query changes the database.
func (f *fake) query(t *testing.T, query string) {
	t.Helper()
	db, err := sql.Open("sqlite3", f.database)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(query)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// writeReport is a Config.Report.
func (f *fake) writeReport(_ context.Context, w io.Writer, r site.Report) error {
	for _, run := range r.Runs {
		fmt.Fprintln(w, run.ID)
	}
	return f.report
}

// pages are the pages of the site, without a log.
func (f *fake) pages() *Pages {
	return New(Config{
		Registry: f.Registry, Report: f.writeReport, ReportPolicy: "default-src 'none'", PartPolicy: "style-src 'self'",
		Name: "Alps <1>", Logo: []byte("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), Colors: report.Colors{On: true, Wasteful: 50, Harmful: 95}, Fault: func(error) {},
	})
}

// get returns a page of an operator, and what was logged.
func (f *fake) get(t *testing.T, path string) (status int, body, log string) {
	t.Helper()
	p := f.pages()
	p.conf.Fault = func(err error) { log += err.Error() }
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
		f := newFake(t)
		f.report = c.err
		status, body, log := f.get(t, "/job?cluster=c&id=7")
		hasTables := strings.Contains(body, "time limit") && strings.Contains(body, "1d 1:01:01") && strings.Contains(body, `href="v1/runs/run001/csv"`)
		if status != 200 || !strings.Contains(body, c.want) || !hasTables || log != c.log {
			t.Errorf("%v: %d, logged %q: %s", c.err, status, log, body)
		}
	}
	tooLarge := fmt.Errorf("%w: the job is too large", site.ErrNoReport)
	f := newFake(t)
	f.report = tooLarge
	_, body, _ := f.get(t, "/job?cluster=c&id=7")
	for _, path := range []string{"report.json", "report.html"} {
		if strings.Contains(body, path) {
			t.Errorf("without a report the page of a job has a link to %s", path)
		}
		status, body, _ := f.get(t, "/"+path+"?cluster=c&id=7")
		if status != 404 || !strings.Contains(body, "There is no report: the job is too large.") {
			t.Errorf("%s without a report: %d %s", path, status, body)
		}
	}
	f.report = site.ErrBusy
	if status, _, _ := f.get(t, "/report.json?cluster=c&id=7"); status != 503 {
		t.Errorf("a file while another report is made: %d", status)
	}
	if status, _, _ := newFake(t).get(t, "/job?cluster=other&id=7"); status != 404 {
		t.Errorf("the job of another cluster: %d", status)
	}
}

// The page of a job with more runs than a report has says so, lists the first ones and has no dead links.
func TestJobWithTooManyRuns(t *testing.T) {
	f := newFake(t)
	var adding sync.WaitGroup // they share the syncs of the disk
	for n := 3; n <= site.MaxReportRuns; n++ {
		adding.Go(func() { f.add(t, n, n, rt.StateEnded) })
	}
	adding.Wait()
	for more, isPartial := range []bool{false, true} {
		if isPartial {
			f.add(t, 999, 999, rt.StateEnded)
		}
		status, body, _ := f.get(t, "/job?cluster=c&id=7")
		hasReason := strings.Contains(body, "There is no report: the job has more than 300 runs;")
		hasLink := isPartial && strings.Contains(body, "report.json")
		if status != 200 || hasReason != isPartial || hasLink {
			t.Errorf("%d runs: %d %.2000s", site.MaxReportRuns+more, status, body)
		}
	}
}

// A run that was registered twice is once in the report: the registration that has ended.
func TestReportHasEachRunOnce(t *testing.T) {
	f := newFake(t)
	f.add(t, 0, 1, rt.StateRunning)
	status, body, _ := f.get(t, "/report.html?cluster=c&id=7")
	if status != 200 || body != "run001\nrun002\n" {
		t.Errorf("%d %q", status, body)
	}
}

// A search that finds nothing at first is continued.
func TestSearchIsContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time of a search is limited
		f := newFake(t)
		f.query(t, `WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
			INSERT INTO job (cluster, job_id, family, username, account, partition, name, state, outcome, started, updated) SELECT 'c', i, i, 'bob', '', '', 'other', 'ended', '', 1000000 * i, 0 FROM n`)
		jobs, next, err := f.Jobs.List(t.Context(), site.Filter{Name: "train"}, "", 50)
		if err != nil || len(jobs) > 0 || next == "" {
			t.Fatalf("the first search finds %d jobs, next %q: %v", len(jobs), next, err)
		}
		if _, body, _ := f.get(t, "/jobs?name=train"); !strings.Contains(body, ">12_3</a>") {
			t.Error(body)
		}
	})
}

// crowd adds so many ended jobs of bob, newer than the others.
func (f *fake) crowd(t *testing.T, jobs int) {
	t.Helper()
	f.query(t, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO job (cluster, job_id, family, username, account, partition, name, display, state, outcome, started, ended, updated, waste)
		SELECT 'c', i, i, 'bob', '', '', 'other', 'other', 'ended', '', 1000000 * i, 1000000 * i + 1, 0, 1 FROM n`, 999+jobs))
}

// hurried are pages whose searches end after one call of the registry.
func (f *fake) hurried() *Pages {
	p := f.pages()
	p.searchTime = -1
	return p
}

func bodyOf(p *Pages, path string, reader site.Reader) (status int, body string) {
	w := httptest.NewRecorder()
	p.ServePage(w, httptest.NewRequest(http.MethodGet, path, nil), reader)
	return w.Code, w.Body.String()
}

// A sorted list whose search has not seen all jobs says how many it sorts, and denies none.
func TestSortedListOfAPart(t *testing.T) {
	f := newFake(t)
	f.crowd(t, 4001)
	f.query(t, "UPDATE job SET name = 'hit', display = 'hit' WHERE job_id = 5000")
	f.query(t, "UPDATE job SET username = 'bob', name = 'train' WHERE job_id = 7")
	for path, want := range map[string]string{
		"/jobs?user=bob&sort=elapsed":            `Sorted are the 4` + "\u202f" + `000 jobs found so far`,
		"/jobs?user=bob&sort=elapsed&name=hit":   "Sorted are the 1 jobs found so far",
		"/jobs?user=bob&sort=elapsed&name=train": "Sorted are the 0 jobs found so far",
	} {
		_, body := bodyOf(f.hurried(), path, site.Reader{Operator: true})
		isOffered := strings.Contains(body, "narrow the filter") && strings.Contains(body, `user=bob">continue the search with the newest first</a>`)
		if !strings.Contains(body, want) || !isOffered || strings.Contains(body, "There is no job") {
			t.Errorf("%s lacks %q: %s", path, want, body)
		}
	}
	if _, body := bodyOf(f.pages(), "/jobs?user=alice&sort=elapsed&name=none", site.Reader{Operator: true}); !strings.Contains(body, "There is no job") {
		t.Errorf("a search to the end: %s", body)
	}
}

// A CSV is complete, or there is none.
func TestCSVIsComplete(t *testing.T) {
	f := newFake(t)
	f.crowd(t, 4000)
	f.query(t, "UPDATE job SET username = 'bob', name = 'train' WHERE job_id = 7")
	for path, lines := range map[string]int{"/jobs.csv?user=bob&name=train": 2, "/jobs.csv?user=bob&name=other": 4001} {
		if status, body := bodyOf(f.hurried(), path, site.Reader{Operator: true}); status != 200 || strings.Count(body, "\n") != lines {
			t.Errorf("%s: %d, %d lines instead of %d", path, status, strings.Count(body, "\n"), lines)
		}
	}
	if status, body := bodyOf(f.hurried(), "/jobs.csv?user=bob", site.Reader{Operator: true}); status != 400 || !strings.Contains(body, "at most 4\u202f000 jobs, and more match: narrow the filter") {
		t.Errorf("4001 jobs: %d %.2000s", status, body)
	}
}

// An error of the database is logged, and not shown.
func TestErrorsAreLogged(t *testing.T) {
	f := newFake(t)
	f.query(t, "ALTER TABLE job RENAME TO hidden")
	status, body, log := f.get(t, "/users")
	if status != 500 || strings.Contains(body, "table: job") || !strings.HasPrefix(log, "make the page /users: ") || !strings.Contains(log, "no such table: job") {
		t.Errorf("%d, logged %q: %s", status, log, body)
	}
}

// The totals refuse what they are not limited by: a figure for all partitions is none for one of them.
func TestTotalsRefuseOtherFields(t *testing.T) {
	f := newFake(t)
	for _, query := range []string{"partition=p", "name=n", "node=n1", "state=running", "outcome=failed", "job=7"} {
		for _, path := range []string{"/users?", "/accounts?"} {
			field, _, _ := strings.Cut(query, "=")
			if status, body, _ := f.get(t, path+query); status != 400 || !strings.Contains(body, "not by "+field) {
				t.Errorf("%s%s: %d %s", path, query, status, body)
			}
		}
	}
}

// addFinished adds a job of alice with the figures of its run.
func (f *fake) addFinished(t *testing.T, n int, used float64) {
	t.Helper()
	begin := start.Add(time.Duration(n) * time.Hour)
	record := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(uint64(n)), Node: "n1", Start: begin},
		Allocation: rt.Allocation{User: "alice"}, Meta: rt.Metadata{JobName: "Solve"}, Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: begin.Add(1000 * time.Second)},
	}
	s := report.Summary{Run: record}
	s.CPU.CoresOf, s.CPU.Cores, s.CPU.AllocatedSecs, s.CPU.UsedSecs, s.CPU.UsedPct, s.ElapsedSecs = "allocation", rt.Some[uint64](4), rt.Some(4000.0), rt.Some(used), rt.Some(used/40), rt.Some(1000.0)
	summary, err := json.Marshal(s.Delivered())
	id := fmt.Sprintf("solve%03d", n)
	failed := f.Runs.Create(t.Context(), site.StoredRun{ID: id, Created: begin})
	_, stored := f.Runs.PutObject(t.Context(), site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: id}, []byte("r"), &record)
	_, finished := f.Runs.Finish(t.Context(), id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: summary}, nil, nil)
	if err := errors.Join(err, failed, stored, finished); err != nil {
		t.Fatal(err)
	}
}

// A job is compared with the run before it, or with one that is named. Figures that were not read are no change.
func TestCompare(t *testing.T) {
	f := newFake(t)
	for n, used := range []float64{1000, 1000, 2000} {
		f.addFinished(t, 20+n, used)
	}
	plain := regexp.MustCompile(` class="n"| data-label="[^"]*"`)
	row := func(cells ...string) string {
		return `<th scope="row">` + strings.Join(cells, "</td><td>") + "</td></tr>"
	}
	for path, want := range map[string][]string{
		"/compare?cluster=c&id=22":         {"Job 21", "Job 22", row("CPU time</th><td>00:16:40", "00:33:20", "&#43;100 %"), row("Cores</th><td>4", "4", "same"), row("Memory peak</th><td>-", "-", "same")},
		"/compare?cluster=c&id=20&with=22": {"Job 22", "Job 20", row("CPU time</th><td>00:33:20", "00:16:40", "-50 %")},
		"/job?cluster=c&id=22":             {`href="compare?cluster=c&amp;id=22"`},
	} {
		status, body, log := f.get(t, path)
		for _, text := range want {
			if status != 200 || !strings.Contains(plain.ReplaceAllString(body, ""), text) {
				t.Errorf("%s: %d, no %s: %s %s", path, status, text, body, log)
			}
		}
	}
	for path, want := range map[string]int{"/compare?cluster=c&id=20": 400, "/compare?cluster=c&id=21&with=x": 400, "/compare?cluster=c&id=21&with=99": 404, "/compare?cluster=c&id=22&with=7": 404} {
		if status, body, _ := f.get(t, path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
	}
	_, body := bodyOf(f.pages(), "/compare?cluster=c&id=22", site.Reader{User: "bob"})
	if strings.Contains(body, "Solve") {
		t.Errorf("another user sees the jobs: %s", body)
	}
}

// A table of jobs of several clusters names them.
func TestClustersOfJobs(t *testing.T) {
	for more, isNamed := range []bool{false, true} {
		list := []site.JobRow{{Cluster: "east"}, {Cluster: "east"}, {Cluster: "west"}}[:2+more]
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, "table", (&Pages{}).tableOfJobs(list, jobList.shown("", list), nil)); err != nil {
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
	f := newFake(t)
	for _, n := range []site.Node{
		node("sound", func(n *site.Node) {
			n.BreakerUntil, n.SpoolBytes, n.SpoolLimit = rt.Some(now.Add(-time.Hour)), rt.Some[int64](5), rt.Some[int64](10)
		}),
		node("failing", func(n *site.Node) { n.FailedDrains = rt.Some[int64](2) }),
		node("silent", func(n *site.Node) { n.Reported = now.Add(-7 * time.Hour) }),
		node("crowded", func(n *site.Node) { n.DiskBytes, n.DiskFree = rt.Some[int64](100), rt.Some[int64](5) }),
		node("filling", func(n *site.Node) { n.SpoolBytes, n.SpoolLimit = rt.Some[int64](8), rt.Some[int64](10) }),
		node("off", func(n *site.Node) { n.HooksDisabled = rt.Some(true) }),
		node("broken", func(n *site.Node) { n.BreakerUntil = rt.Some(now.Add(time.Hour)) }),
	} {
		if err := f.Nodes.Put(t.Context(), "o", n.NodeState, n.Reported); err != nil {
			t.Fatal(err)
		}
	}
	_, body, _ := f.get(t, "/nodes")
	at := -1
	for _, want := range []string{">broken</a>", "breaker open", ">off</a>", "hooks are disabled: no job is tracked", ">crowded</a>", "disk of the spool 95 % full", ">filling</a>", "spool 80 % full", ">silent</a>", "no report for 7 h", ">failing</a>", "2 failed drains", ">sound</a>"} {
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

// Slurm uses ids again: the generation names one of the jobs with an id.
func TestGenerationOfAJob(t *testing.T) {
	for query, want := range map[string]int{"": 200, "&generation=1": 200, "&generation=2": 404, "&generation=0": 400, "&generation=x": 400} {
		if status, body, _ := newFake(t).get(t, "/report.html?cluster=c&id=7"+query); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
