package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// putLive stores the report of a node with the running job 8, and returns the names of those that are wanted.
func (f *fake) putLive(t *testing.T, begin, read time.Time) []string {
	t.Helper()
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](8), Node: "n1", Start: begin},
		Allocation: rt.Allocation{User: "alice"}, Meta: rt.Metadata{JobName: "<b>now"}, Ending: rt.Ending{State: rt.StateRunning},
	}
	live := (&report.Summary{Run: run}).Figures()
	live.CPU.CoresOf, live.CPU.AllocatedSecs, live.CPU.UsedSecs, live.Record.Last = "allocation", rt.Some(7200.0), rt.Some(5400.0), read
	live.CPU.Cores, live.CPU.UsedPct = rt.Some[uint64](8), rt.Some(75.0)
	wanted, err := f.Live.Put(t.Context(), "nodes", site.LiveReport{Cluster: "c", Node: "n1", Runs: []site.LiveRun{*live}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}

// show returns a page of an operator with its header.
func (f *fake) show(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	p := f.pages()
	p.conf.Fault = func(err error) { t.Error(err) }
	p.ServePage(w, httptest.NewRequest(http.MethodGet, path, nil), site.Reader{Operator: true})
	return w
}

// A running job is in the lists with its figures and their age. Its page says that it runs, refreshes by itself, and
// makes the readings wanted.
func TestRunningJob(t *testing.T) {
	f := newFake(t)
	begin := time.Now().Add(-time.Hour)
	f.putLive(t, begin, time.Now().Add(-5*time.Minute))
	list := f.show(t, "/jobs?state=running")
	for _, want := range []string{">8</a>", "&lt;b&gt;now", ">running</span></a>", "read 5 min ago", "75 %", "2.00"} {
		if !strings.Contains(list.Body.String(), want) {
			t.Errorf("the list has no %q: %s", want, list.Body)
		}
	}
	const again = `<noscript><meta http-equiv="refresh" content="60"></noscript>`
	if !strings.Contains(list.Body.String(), again) || strings.Contains(f.show(t, "/jobs").Body.String(), again) {
		t.Errorf("the list does not refresh, or the list of all jobs does: %s", list.Body)
	}
	if wanted := f.putLive(t, begin, time.Now()); len(wanted) > 0 {
		t.Errorf("%v are wanted before someone has looked", wanted)
	}
	page := f.show(t, "/job?cluster=c&id=8")
	isRunning := strings.Contains(page.Body.String(), "the job has run since ") && strings.Contains(page.Body.String(), "its readings arrive within 2 minutes") &&
		strings.Contains(page.Body.String(), "read just now")
	if page.Code != 200 || !strings.Contains(page.Body.String(), again) || !isRunning {
		t.Errorf("%d %v: %s", page.Code, page.Header(), page.Body)
	}
	if wanted := f.putLive(t, begin, time.Now()); len(wanted) != 1 {
		t.Errorf("after a look %v are wanted", wanted)
	}
	if ended := f.show(t, "/job?cluster=c&id=7"); strings.Contains(ended.Body.String(), again) {
		t.Error("the page of a job that has ended refreshes")
	}
}
