package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// The description of the API has the paths and the parameters of the service, with their limits, and no others.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Schema   struct {
					Type             string
					Pattern          string
					Enum             []string
					Minimum, Maximum *int64
					MaxItems         int
					Items            struct{ MinLength, MaxLength int }
					MinLength        int `json:"minLength"`
					MaxLength        int
				}
			}
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	routes := []string{"/" + linksPath}
	for path := range readRoutes {
		routes = append(routes, "/v1/"+path)
	}
	slices.Sort(routes)
	if paths := slices.Sorted(maps.Keys(doc.Paths)); !slices.Equal(paths, routes) {
		t.Errorf("the description has the paths\n%q, the service\n%q", paths, routes)
	}
	if _, isPost := doc.Paths["/"+linksPath]["post"]; !isPost || len(doc.Paths["/"+linksPath]) != 1 {
		t.Error("/links has other methods than POST")
	}
	delete(doc.Paths, "/"+linksPath)
	for path, operations := range doc.Paths {
		get, found := operations["get"]
		if !found || len(operations) != 1 {
			t.Errorf("%s has other methods than GET", path)
		}
		var query, inPath []string
		for _, p := range get.Parameters {
			if p.In == "path" {
				inPath = append(inPath, p.Name)
				if pattern := map[string]string{"run_id": nameOfRun.String(), "job": nameOfJob.String()}[p.Name]; p.Schema.Pattern != pattern {
					t.Errorf("%s: %s has the pattern %s", path, p.Name, p.Schema.Pattern)
				}
				continue
			}
			query = append(query, p.Name)
			s, known := p.Schema, listParameters[p.Name]
			cursor := cursors
			switch path {
			case "/v1/nodes":
				known, cursor = nodeParameters[p.Name], nodeCursors
			case "/v1/unassigned":
				known, cursor = unassignedParameters[p.Name], nameOfRun
			case "/v1/sums":
				known = sumParameters[p.Name]
			case "/v1/advice":
				known = adviceParameters[p.Name]
			case "/v1/jobs/{job}":
				known = jobParameters[p.Name]
			}
			wrong := false
			switch p.Name {
			case "limit":
				wrong = *s.Minimum != 1 || *s.Maximum != maxPageJobs
			case "job_id":
				wrong = *s.Minimum != 0 || *s.Maximum != 999_999_999_999_999_999
			case "cursor":
				wrong = s.Pattern != cursor.String()
			case "generation":
				wrong = *s.Minimum != 1 || *s.Maximum != 999_999_999_999_999_999
			case "sort":
				wrong = !slices.Equal(s.Enum, sorts)
			case "by":
				wrong = !slices.Equal(s.Enum, groups)
			case "state":
				wrong = !slices.Equal(s.Enum, states)
			case "outcome":
				wrong = !slices.Equal(s.Enum, outcomes)
			case "user", "account", "partition":
				if path == "/v1/advice" { // one user
					wrong = s.MinLength != 1 || s.MaxLength != maxValue
					break
				}
				wrong = s.MaxItems != maxValues || s.Items.MinLength != 1 || s.Items.MaxLength != maxValue
			case "cluster", "job_name", "node":
				wrong = s.MinLength != 1 || s.MaxLength != maxValue
			}
			if wrong || known.isMany != (s.Type == "array") {
				t.Errorf("%s: parameter %s has other limits: %+v", path, p.Name, s)
			}
		}
		slices.Sort(query)
		var want []string
		isList := path == "/v1/jobs" || path == "/v1/runs"
		if isList {
			want = slices.Sorted(maps.Keys(listParameters))
		}
		switch path {
		case "/v1/nodes":
			want = slices.Sorted(maps.Keys(nodeParameters))
		case "/v1/unassigned":
			want = slices.Sorted(maps.Keys(unassignedParameters))
		case "/v1/sums":
			want = slices.Sorted(maps.Keys(sumParameters))
		case "/v1/advice":
			want = slices.Sorted(maps.Keys(adviceParameters))
		case "/v1/jobs/{job}":
			want = slices.Sorted(maps.Keys(jobParameters))
		}
		if !slices.Equal(query, want) {
			t.Errorf("%s has the parameters %q, the service %q", path, query, want)
		}
		for _, name := range []string{"run_id", "job"} {
			if strings.Contains(path, "{"+name+"}") != slices.Contains(inPath, name) {
				t.Errorf("%s: parameters of the path %q", path, inPath)
			}
		}
	}
}

// The description is the answer to anyone; the other paths are closed without readers.
func TestNoReaders(t *testing.T) {
	s := newServer(t, Config{})
	for path, want := range map[string]int{
		"/v1/openapi.json": 200, "/v1/openapi.json?x=1": 400, "/v1/jobs": 403, "/v1/runs": 403, "/v1/nodes": 403, "/v1/unassigned": 403, "/v1/whoami": 403, "/v1/": 404, "/v1": 404, "/v1/x": 404,
		"/v1/runs/20260301t120000-aaaaaaaaaaaaaaaaaaaaaaaaaa": 403, "/v1/runs/x/record": 403, "/v1/runs/x/y": 404, "/v1/jobs/": 403, "/v1/jobs/7": 403, "/v1/jobs/7/runs": 404, "/v1/sums?by=user": 403, "/v1/sums/": 404, "//v1/jobs": 404,
		"/v1/openapi.json/x": 404,
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("GET %s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "/v1/jobs", strings.NewReader("{}")))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
}
