package api

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// nodesOf returns the nodes that have reported.
func nodesOf(t *testing.T, s *Server) []site.Node {
	t.Helper()
	nodes, _, err := s.conf.Registry.Nodes.List(t.Context(), site.NodeFilter{}, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

const nodeReport = `{"cluster":"alps","node":"n1","time":"2026-03-01T12:00:00+01:00","version":"0.1.0-3-gabc","undelivered_runs":7,"x":{"y":1}}`

func TestNodeReport(t *testing.T) {
	s := newServer(t, Config{})
	for range 2 {
		if status, answer := api(t, s, "PUT", "/nodes", nodeReport); status != 204 || answer != "" {
			t.Fatalf("%d %s", status, answer)
		}
	}
	want := site.NodeState{Cluster: "alps", Node: "n1", Time: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC), Version: "0.1.0-3-gabc", UndeliveredRuns: rt.Some[int64](7)}
	nodes := nodesOf(t, s)
	if len(nodes) != 1 || nodes[0].NodeState != want || nodes[0].Owner != s.owners.keys.owner(tokensOf(token)[0]) {
		t.Errorf("%+v", nodes)
	}
	m := memoryOf(s)
	m.refuse(t, "UPDATE ON node")
	if status, _ := api(t, s, "PUT", "/nodes", nodeReport); status != 500 {
		t.Errorf("without a database: %d", status)
	}
	m.query(t, "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "+
		"INSERT INTO node (cluster, node, owner, reported, state) SELECT 'alps', 'n' || i, ?, ?, '{}' FROM n", nodes[0].Owner, time.Now().UnixMicro())
	if status, _ := api(t, s, "PUT", "/nodes", strings.Replace(nodeReport, "n1", "new", 1)); status != 507 {
		t.Errorf("over the quota: %d", status)
	}
}

func TestNodeReportsThatAreRefused(t *testing.T) {
	s := newServer(t, Config{})
	change := func(old, new string) string { return strings.Replace(nodeReport, old, new, 1) }
	for name, c := range map[string]struct {
		method, path, body string
		want               int
	}{
		"no JSON":           {"PUT", "/nodes", "x", 400},
		"no object":         {"PUT", "/nodes", "[]", 400},
		"a text as number":  {"PUT", "/nodes", change(":7", `:"7"`), 400},
		"a large number":    {"PUT", "/nodes", change(":7", `:1e300`), 400},
		"no name":           {"PUT", "/nodes", change("n1", ""), 422},
		"a path as name":    {"PUT", "/nodes", change("n1", "../n1"), 422},
		"markup as name":    {"PUT", "/nodes", change("n1", "<script>"), 422},
		"markup as cluster": {"PUT", "/nodes", change("alps", "<b>"), 422},
		"a long name":       {"PUT", "/nodes", change("n1", strings.Repeat("n", 129)), 422},
		"markup as version": {"PUT", "/nodes", change("0.1.0", "<b>"), 422},
		"less than none":    {"PUT", "/nodes", change(":7", ":-1"), 422},
		"no time":           {"PUT", "/nodes", change(`"time"`, `"tim"`), 422},
		"too large":         {"PUT", "/nodes", change(`"y":1`, `"y":"`+strings.Repeat("y", maxNodeReport)+`"`), 413},
		"GET":               {"GET", "/nodes", "", 405},
		"another path":      {"PUT", "/nodes/n1", nodeReport, 404},
	} {
		if status, answer := api(t, s, c.method, c.path, c.body); status != c.want || len(nodesOf(t, s)) > 0 {
			t.Errorf("%s: %d %s, stored %v", name, status, answer, nodesOf(t, s))
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("PUT", "/nodes", strings.NewReader(nodeReport)))
	if w.Code != 401 || len(nodesOf(t, s)) > 0 {
		t.Errorf("without a token: %d", w.Code)
	}
	without := newWithoutRecords(t)
	if status, _ := api(t, without, "PUT", "/nodes", nodeReport); status != 404 || len(nodesOf(t, without)) > 0 {
		t.Errorf("a receiver without records: %d", status)
	}
}

// What is stored can be sent: the time of each accepted report has a form in JSON.
func FuzzNodeReport(f *testing.F) {
	f.Add([]byte(nodeReport))
	f.Add([]byte(`{"node":"n","time":"1969-12-31T23:59:59Z"}`))
	f.Add([]byte(`{"node":"n","time":"2026-03-01T12:00:00Z","last_drain":"9999-12-31T23:59:59-23:00","hooks_disabled":true,"spool_bytes":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := parseNode(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseNode(text)
		if err != nil || again != n {
			t.Errorf("%s: %+v, again %+v: %v", body, n, again, err)
		}
	})
}
