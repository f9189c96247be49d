package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Only an operator reads the metrics. They count requests, and have no name of a user, a node or a job.
func TestMetrics(t *testing.T) {
	base := newPageSite(t)
	for token, want := range map[string]int{"": 401, "no-token": 401, "page-alice": 403, "page-all": 200} {
		if status, _, body := getPage(t, base+"/metrics", token); status != want {
			t.Errorf("with the token %q: %d %.200s, want %d", token, status, body, want)
		}
	}
	for _, path := range []string{"/jobs", "/v1/jobs", "/v1/no", "/nothing", "/runs"} {
		getPage(t, base+path, "page-all")
	}
	_, header, body := getPage(t, base+"/metrics", "page-all")
	if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("the type is %s", kind)
	}
	for _, want := range []string{
		`rt_site_requests_total{code="200",route="page"} 1`, `rt_site_requests_total{code="200",route="read"} 1`, `rt_site_requests_total{code="401",route="list"} 1`,
		`rt_site_requests_total{code="404",route="other"} 2`, `rt_site_requests_total{code="403",route="metrics"} 1`, `rt_site_request_duration_seconds_count{route="page"} 1`,
		"rt_site_database_up 1", `rt_site_nodes{last_delivery="never"} 15`, `rt_site_node_reports{last_report="1h"} 15`, "process_open_fds ", `rt_site_build_info{version="` + rt.Version + `"} 1`,
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("the metrics lack %s: %s", want, body)
		}
	}
	if m := regexp.MustCompile(`alice|bob|hit|train|no-token`).FindString(body); m != "" {
		t.Errorf("the metrics have the text %q", m)
	}
}

// The outcome of a run is from its summary, else from its finish.
func TestOutcomeOfAFinish(t *testing.T) {
	for summary, want := range map[string]rt.Outcome{
		`{"run":{"outcome":"oom"}}`: rt.OutcomeOOM, `{"run":{}}`: rt.OutcomeFailed, ``: rt.OutcomeFailed, `{"run":7}`: rt.OutcomeFailed,
	} {
		if got := outcomeOf(site.Finish{RunStatus: "failed", Summary: []byte(summary)}); got != want {
			t.Errorf("%s: %s, want %s", summary, got, want)
		}
	}
}
