package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

const liveReport = `{"cluster":"alps","node":"n1","x":1,"runs":[{"run":{"cluster":"alps","node":"n1","job_id":7,"start":"2026-03-01T12:00:00+01:00","state":"running",` +
	`"user":"anna","meta":{"job_name":"md"},"x":1},"elapsed_secs":60,"cpu":{"used_secs":30,"allocated_secs":60,"cores_of":"allocation","used_pct":null},"record":{"last":"2026-03-01T12:01:00Z"}}]}`

// liveJobs returns the jobs of the registry.
func liveJobs(t *testing.T, s *Server) []site.JobRow {
	t.Helper()
	jobs, _, err := s.conf.Registry.Jobs.List(t.Context(), site.Filter{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestLiveReport(t *testing.T) {
	s := newServer(t, Config{})
	for _, used := range []string{"30", "45"} {
		body := strings.Replace(liveReport, `"used_secs":30`, `"used_secs":`+used, 1)
		if status, answer := api(t, s, "PUT", "/live", body); status != 200 || answer != `{"wanted":[]}`+"\n" {
			t.Fatalf("%d %q", status, answer)
		}
	}
	jobs := liveJobs(t, s)
	if len(jobs) != 1 || jobs[0].JobID != 7 || jobs[0].User != "anna" || jobs[0].Name != "md" || jobs[0].CoreSecsUsed != rt.Some(45.0) || len(jobs[0].Live) != 1 {
		t.Fatalf("%+v", jobs)
	}
	if err := s.conf.Registry.Live.Want(t.Context(), jobs[0], time.Now()); err != nil {
		t.Fatal(err)
	}
	stem := jobs[0].Live[0].Summary().Run.FileStem()
	if status, answer := api(t, s, "PUT", "/live", liveReport); status != 200 || answer != `{"wanted":["`+stem+`"]}`+"\n" {
		t.Errorf("wanted: %d %q", status, answer)
	}
	if status, answer := api(t, s, "PUT", "/live", `{"cluster":"alps","node":"n1"}`); status != 200 || len(liveJobs(t, s)) > 0 {
		t.Errorf("without runs: %d %s, %v", status, answer, liveJobs(t, s))
	}
	if status, answer := api(t, s, "POST", "/runs", `{}`); status != 201 || !strings.Contains(answer, `"rt.live":1`) {
		t.Errorf("the registration does not announce it: %d %s", status, answer)
	}
}

// A node speaks of whole jobs on itself only, and within limits.
func TestLiveReportsThatAreRefused(t *testing.T) {
	s := newServer(t, Config{})
	change := func(old, new string) string { return strings.Replace(liveReport, old, new, 1) }
	for name, c := range map[string]struct {
		method, path, body string
		want               int
	}{
		"no JSON":            {"PUT", "/live", "x", 422},
		"no object":          {"PUT", "/live", "[]", 422},
		"no name":            {"PUT", "/live", change(`"node":"n1"`, `"node":""`), 422},
		"markup as cluster":  {"PUT", "/live", change("alps", "<b>"), 422},
		"another node":       {"PUT", "/live", change(`"node":"n1"`, `"node":"n2"`), 422},
		"another cluster":    {"PUT", "/live", change(`"cluster":"alps"`, `"cluster":"jura"`), 422},
		"no job":             {"PUT", "/live", change(`"job_id":7`, `"job_id":null`), 422},
		"a large id":         {"PUT", "/live", change(`"job_id":7`, `"job_id":18446744073709551615`), 422},
		"a step":             {"PUT", "/live", change(`"job_id":7`, `"job_id":7,"step":"0"`), 422},
		"delivered":          {"PUT", "/live", change("running", "delivered"), 422},
		"no start":           {"PUT", "/live", change(`"start"`, `"begin"`), 422},
		"a start before all": {"PUT", "/live", change("2026-03-01T12:00:00+01:00", "1900-03-01T12:00:00Z"), 422},
		"a text as number":   {"PUT", "/live", change(":30", `:"30"`), 422},
		"a long name":        {"PUT", "/live", change(`"md"`, `"`+strings.Repeat("n", site.MaxLiveRun)+`"`), 413},
		"too many":           {"PUT", "/live", `{"node":"n1","runs":[{}` + strings.Repeat(",{}", site.MaxLiveRuns) + `]}`, 413},
		"too large":          {"PUT", "/live", change(`"x":1`, `"x":"`+strings.Repeat("y", site.MaxLiveReport)+`"`), 413},
		"GET":                {"GET", "/live", "", 405},
		"another path":       {"PUT", "/live/n1", liveReport, 404},
	} {
		if status, answer := api(t, s, c.method, c.path, c.body); status != c.want || len(liveJobs(t, s)) > 0 {
			t.Errorf("%s: %d %s, stored %v", name, status, answer, liveJobs(t, s))
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("PUT", "/live", strings.NewReader(liveReport)))
	if w.Code != http.StatusUnauthorized || len(liveJobs(t, s)) > 0 {
		t.Errorf("without a token: %d", w.Code)
	}
	if status, _ := api(t, newWithoutRecords(t), "PUT", "/live", liveReport); status != 404 {
		t.Errorf("a receiver without records: %d", status)
	}
}

// What is stored can be sent, and a text of a user is only a text.
func FuzzLiveReport(f *testing.F) {
	f.Add([]byte(liveReport))
	f.Add(fmt.Appendf(nil, "%s", strings.Replace(liveReport, "md", "<script>\\u0000\\n", 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parseLive(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLive(text); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	})
}
