package metrics

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// nodes are the ages of nodes, or an error.
type nodes struct {
	ages []site.NodeAge
	lake site.LakeState
	err  error
}

func (n nodes) LakeState(context.Context) (site.LakeState, error) { return n.lake, n.err }

func (n nodes) NodeAges(context.Context) ([]site.NodeAge, error) { return n.ages, n.err }

// text returns the metrics.
func text(t *testing.T, m *Metrics, n nodes) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Answering(n, n).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return "\n" + w.Body.String()
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the metrics lack %s: %s", line, text)
		}
	}
}

func TestRequests(t *testing.T) {
	m := New()
	h := m.Counting(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has(t, text(t, m, nodes{}), "rt_site_requests_in_progress 1")
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/away" {
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("the answer hides what the server offers: %v", err)
		}
		_, _ = io.WriteString(w, "answer")
	}), func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") })
	for _, path := range []string{"/list", "/list", "/away"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader("body")))
	}
	func() { // an answer that is broken off
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the panic is lost")
			}
		}()
		broken := m.Counting(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "[")
			panic(http.ErrAbortHandler)
		}), func(*http.Request) string { return "read" })
		broken.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}()
	has(t, text(t, m, nodes{}), `rt_site_requests_total{code="cut",route="read"} 1`)
	has(t, text(t, m, nodes{}), `rt_site_requests_total{code="200",route="list"} 2`, `rt_site_requests_total{code="503",route="away"} 1`, "rt_site_requests_in_progress 0",
		`rt_site_received_bytes_total{route="list"} 8`, `rt_site_sent_bytes_total{route="list"} 12`, `rt_site_request_duration_seconds_count{route="list"} 2`)
}

func TestRunsAndErrors(t *testing.T) {
	m := New()
	has(t, text(t, m, nodes{}), `rt_site_database_errors_total{kind="away"} 0`, `rt_site_finished_runs_total{outcome="oom"} 0`, `rt_site_store_errors_total{operation="put"} 0`)
	m.Finished(rt.OutcomeOOM)
	m.Finished("<an outcome of a client>")
	m.DatabaseFailed("full")
	m.DatabaseFailed("new")
	got := text(t, m, nodes{})
	has(t, got, `rt_site_database_errors_total{kind="full"} 1`, `rt_site_database_errors_total{kind="other"} 1`, `rt_site_finished_runs_total{outcome="oom"} 1`, `rt_site_finished_runs_total{outcome="unknown"} 1`)
	if strings.Contains(got, "client") {
		t.Error("a text of a client is in the metrics")
	}
}

// failing is a store that has an error.
type failing struct{ err error }

func (f failing) Put(context.Context, string, int64, io.Reader) error { return f.err }
func (f failing) Get(context.Context, string) (io.ReadCloser, error)  { return nil, f.err }
func (f failing) Delete(context.Context, string) error                { return f.err }
func (f failing) List(context.Context, string) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		isGoing := yield(site.Stored{Name: "a"}, nil)
		if isGoing && f.err != nil {
			yield(site.Stored{}, f.err)
		}
	}
}

func TestStore(t *testing.T) {
	m := New()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx context.Context
		err error
	}{{t.Context(), nil}, {t.Context(), errors.New("no route")}, {t.Context(), site.ErrNotFound}, {ended, context.Canceled}} {
		s := m.CountingStore(failing{c.err})
		_, err := s.Get(c.ctx, "a")
		listed := 0
		var last error
		for _, err := range s.List(c.ctx, "") {
			listed++
			last = err
		}
		for _, err := range []error{s.Put(c.ctx, "a", 0, nil), err, s.Delete(c.ctx, "a"), last} {
			if !errors.Is(err, c.err) {
				t.Errorf("the error is %v: want %v", err, c.err)
			}
		}
		if listed == 0 {
			t.Error("the list has no object")
		}
	}
	for _, operation := range operations {
		has(t, text(t, m, nodes{}), `rt_site_store_errors_total{operation="`+operation+`"} 1`, `rt_site_store_duration_seconds_count{operation="`+operation+`"} 4`)
	}
}

func TestBacklog(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	n := nodes{ages: []site.NodeAge{
		{Reported: ago(time.Minute), LastSuccess: rt.Some(ago(time.Minute)), Undelivered: rt.Some[int64](0)},
		{Reported: ago(time.Minute), LastSuccess: rt.Some(ago(7 * time.Hour)), Undelivered: rt.Some[int64](3)},
		{Reported: ago(8 * time.Hour), LastSuccess: rt.Some(ago(8 * time.Hour)), Undelivered: rt.Some[int64](4)},
		{Reported: ago(400 * 24 * time.Hour), LastSuccess: rt.Some(ago(400 * 24 * time.Hour))},
		{Reported: ago(time.Minute), LastSuccess: rt.Some(ago(8 * 24 * time.Hour))},
		{Reported: ago(8 * 24 * time.Hour)},
		{Reported: ago(-time.Minute), Undelivered: rt.Some[int64](5)},
	}}
	got := text(t, New(), n)
	has(t, got, "rt_site_database_up 1", `rt_site_nodes{last_delivery="1h"} 1`, `rt_site_nodes{last_delivery="6h"} 0`, `rt_site_nodes{last_delivery="1d"} 2`,
		`rt_site_nodes{last_delivery="older"} 1`, `rt_site_nodes{last_delivery="gone"} 2`, `rt_site_nodes{last_delivery="never"} 1`, `rt_site_node_undelivered_runs{last_delivery="1d"} 7`,
		`rt_site_node_undelivered_runs{last_delivery="never"} 5`, `rt_site_node_reports{last_report="1h"} 4`, `rt_site_node_reports{last_report="older"} 2`)
	if strings.Contains(got, "rt_site_lake_last") {
		t.Error("the lake has a time before it was written")
	}
	n.lake = site.LakeState{LastSuccess: rt.Some(time.UnixMilli(1_700_000_000_500)), Unwritten: 7}
	has(t, text(t, New(), n), "rt_site_lake_last_success_timestamp_seconds 1.7000000005e+09", "rt_site_lake_unwritten_runs 7")
	away := text(t, New(), nodes{err: errors.New("away")})
	has(t, away, "rt_site_database_up 0", `rt_site_requests_in_progress 0`)
	if strings.Contains(away, "rt_site_nodes{") {
		t.Error("nodes are counted while the database is away")
	}
}
