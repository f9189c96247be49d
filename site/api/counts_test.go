package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// newRegistry returns an empty registry.
func newRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.Open(context.Background(), filepath.Join(t.TempDir(), "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// textOf returns the metrics.
func textOf(t *testing.T, m *Metrics, r *registry.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Answering(r, true).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
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
	m, sites := NewMetrics(), newRegistry(t)
	h := m.Counting(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has(t, textOf(t, m, sites), "rt_site_requests_in_progress 1")
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
	has(t, textOf(t, m, sites), `rt_site_requests_total{code="cut",route="read"} 1`)
	has(t, textOf(t, m, sites), `rt_site_requests_total{code="200",route="list"} 2`, `rt_site_requests_total{code="503",route="away"} 1`, "rt_site_requests_in_progress 0",
		`rt_site_received_bytes_total{route="list"} 8`, `rt_site_sent_bytes_total{route="list"} 12`, `rt_site_request_duration_seconds_count{route="list"} 2`)
}

func TestRunsAndErrors(t *testing.T) {
	m, r := NewMetrics(), newRegistry(t)
	has(t, textOf(t, m, r), `rt_site_database_errors_total{kind="away"} 0`, `rt_site_finished_runs_total{outcome="oom"} 0`, `rt_site_store_errors_total{operation="put"} 0`)
	m.Finished(rt.OutcomeOOM)
	m.Finished("<an outcome of a client>")
	m.DatabaseFailed("full")
	m.DatabaseFailed("new")
	got := textOf(t, m, r)
	has(t, got, `rt_site_database_errors_total{kind="full"} 1`, `rt_site_database_errors_total{kind="other"} 1`, `rt_site_finished_runs_total{outcome="oom"} 1`, `rt_site_finished_runs_total{outcome="unknown"} 1`)
	if strings.Contains(got, "client") {
		t.Error("a text of a client is in the metrics")
	}
}

// failingStore is a store that has an error.
type failingStore struct {
	site.ObjectStore // nil
	err              error
}

func (f failingStore) Put(context.Context, string, int64, io.Reader) error { return f.err }
func (f failingStore) Get(context.Context, string) (io.ReadCloser, error)  { return nil, f.err }
func (f failingStore) Delete(context.Context, string) error                { return f.err }
func (f failingStore) List(context.Context, string) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		isGoing := yield(site.Stored{Name: "a"}, nil)
		if isGoing && f.err != nil {
			yield(site.Stored{}, f.err)
		}
	}
}

func TestStore(t *testing.T) {
	m, r := NewMetrics(), newRegistry(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx context.Context
		err error
	}{{t.Context(), nil}, {t.Context(), errors.New("no route")}, {t.Context(), site.ErrNotFound}, {ended, context.Canceled}} {
		s := m.CountingStore(failingStore{err: c.err})
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
		has(t, textOf(t, m, r), `rt_site_store_errors_total{operation="`+operation+`"} 1`, `rt_site_store_duration_seconds_count{operation="`+operation+`"} 4`)
	}
}

func TestBacklog(t *testing.T) {
	r := newRegistry(t)
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for i, n := range []struct {
		reported    time.Time
		lastSuccess rt.Opt[time.Time]
		undelivered rt.Opt[int64]
	}{
		{ago(time.Minute), rt.Some(ago(time.Minute)), rt.Some[int64](0)},
		{ago(time.Minute), rt.Some(ago(7 * time.Hour)), rt.Some[int64](3)},
		{ago(8 * time.Hour), rt.Some(ago(8 * time.Hour)), rt.Some[int64](4)},
		{ago(80 * 24 * time.Hour), rt.Some(ago(80 * 24 * time.Hour)), rt.None[int64]()},
		{ago(time.Minute), rt.Some(ago(8 * 24 * time.Hour)), rt.None[int64]()},
		{ago(8 * 24 * time.Hour), rt.None[time.Time](), rt.None[int64]()},
		{ago(-time.Minute), rt.None[time.Time](), rt.Some[int64](5)},
	} {
		state := site.NodeState{Node: fmt.Sprint("n", i), LastSuccess: n.lastSuccess, UndeliveredRuns: n.undelivered}
		if err := r.Nodes.Put(t.Context(), "o", state, n.reported); err != nil {
			t.Fatal(err)
		}
	}
	got := textOf(t, NewMetrics(), r)
	has(t, got, "rt_site_database_up 1", `rt_site_nodes{last_delivery="1h"} 1`, `rt_site_nodes{last_delivery="6h"} 0`, `rt_site_nodes{last_delivery="1d"} 2`,
		`rt_site_nodes{last_delivery="older"} 1`, `rt_site_nodes{last_delivery="gone"} 2`, `rt_site_nodes{last_delivery="never"} 1`, `rt_site_node_undelivered_runs{last_delivery="1d"} 7`,
		`rt_site_node_undelivered_runs{last_delivery="never"} 5`, `rt_site_node_reports{last_report="1h"} 4`, `rt_site_node_reports{last_report="older"} 2`)
	if strings.Contains(got, "rt_site_lake_last") {
		t.Error("the lake has a time before it was written")
	}
	run := site.StoredRun{ID: "20260301t120000-a", Owner: "o", Created: time.Now()}
	record := rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](7), Node: "n1", Start: time.Now()}}
	object := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "00"}
	failed := errors.Join(r.Runs.Create(t.Context(), run), r.Lake.Done(t.Context(), time.UnixMilli(1_700_000_000_500)))
	_, err := r.Runs.PutObject(t.Context(), object, []byte("r"), &record)
	if err := errors.Join(failed, err); err != nil {
		t.Fatal(err)
	}
	has(t, textOf(t, NewMetrics(), r), "rt_site_lake_last_success_timestamp_seconds 1.7000000005e+09", "rt_site_lake_unwritten_runs 1")
	closed, err := registry.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), registry.Config{})
	if err := errors.Join(err, closed.Close()); err != nil {
		t.Fatal(err)
	}
	away := textOf(t, NewMetrics(), closed)
	has(t, away, "rt_site_database_up 0", `rt_site_requests_in_progress 0`)
	if strings.Contains(away, "rt_site_nodes{") {
		t.Error("nodes are counted while the database is away")
	}
}
