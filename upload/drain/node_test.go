package drain

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newRun spools a run that begins n hours after start. An ended one ends an hour later; the tracker of
// another one is dead, unless the returned writer stays open.
func newRun(t *testing.T, s Node, n int, isEnded bool) *spool.Writer {
	t.Helper()
	boot, err := host.BootID("/proc")
	if err != nil {
		t.Fatal(err)
	}
	run := rt.Run{
		Identity: rt.Identity{Cluster: "alps", JobID: rt.Some(uint64(n + 1)), Node: "n1", BootID: boot, Start: start.Add(time.Duration(n) * time.Hour)},
		Ending:   rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(s.Spool, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() }) // also of a closed one
	snapshot := rt.Snapshot{Reason: rt.ReasonFirst, Wall: run.Start.UnixNano(), Boot: 1}
	err = w.Put(&snapshot)
	if isEnded {
		run.State, run.Outcome, run.End = rt.StateEnded, rt.OutcomeFinished, run.Start.Add(time.Hour)
		err = errors.Join(err, w.End(run), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newSource(t *testing.T) Node {
	dir := t.TempDir()
	for _, name := range []string{"spool", "state"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Node{
		Spool: filepath.Join(dir, "spool"), Quota: 1 << 30, StateDir: filepath.Join(dir, "state"), DisableFile: filepath.Join(dir, "disabled"),
		BreakerFailures: 3, BreakerReset: time.Hour,
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestState(t *testing.T) {
	s := newSource(t)
	now := start.Add(24 * time.Hour)
	n, err := s.Read(now)
	if err != nil || n.UndeliveredRuns != rt.Some[int64](0) || n.OldestUndelivered.Valid() || n.LastDrain.Valid() || n.LastSuccess.Valid() || n.Delivered.Valid() || n.Node != "" {
		t.Errorf("an empty spool: %+v, %v", n, err)
	}
	if n.HookFailures != rt.Some[int64](0) || n.BreakerUntil.Valid() || n.HooksDisabled != rt.Some(false) {
		t.Errorf("hooks without failures: %+v", n)
	}
	newRun(t, s, 5, true)
	newRun(t, s, 2, true)
	if err := newRun(t, s, 3, false).Close(); err != nil { // its tracker died
		t.Fatal(err)
	}
	newRun(t, s, 1, false) // is running
	write(t, filepath.Join(s.Spool, "job-9.db"), "x")
	write(t, filepath.Join(s.StateDir, "breaker@n1.json"), `{"failures":4,"until":"2026-03-02T12:30:00Z"}`)
	write(t, filepath.Join(s.StateDir, "breaker@n0.json"), `{"failures":1,"until":"0001-01-01T00:00:00Z"}`)
	write(t, s.DisableFile, "")
	n, err = s.Read(now)
	if err != nil {
		t.Error(err)
	}
	got := []any{n.Cluster, n.Node, n.Trackers, n.UndeliveredRuns, n.OldestUndelivered, n.Unreadable, n.HookFailures, n.BreakerUntil, n.HooksDisabled}
	want := []any{
		"alps", "n1", rt.Some[int64](1), rt.Some[int64](3), rt.Some(start.Add(3 * time.Hour)), rt.Some[int64](1),
		rt.Some[int64](4), rt.Some(now.Add(30 * time.Minute)), rt.Some(true),
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %v, want %v", i, got[i], want[i])
		}
	}
	for name, v := range map[string]rt.Opt[int64]{"bytes": n.UndeliveredBytes, "spool": n.SpoolBytes, "limit": n.SpoolLimit, "disk": n.DiskBytes} {
		if v.Or(0) <= 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
	if n, err := s.Read(now.Add(time.Hour)); err != nil || n.BreakerUntil.Valid() || n.HookFailures != rt.Some[int64](4) {
		t.Errorf("an hour later the breaker is %v, %v", n.BreakerUntil, err)
	}
}

// What cannot be read is absent, and the rest is there.
func TestUnknownIsAbsent(t *testing.T) {
	s := newSource(t)
	newRun(t, s, 0, true)
	s.Quota = 0
	write(t, filepath.Join(s.Spool, drainsFile), "{")
	write(t, filepath.Join(s.StateDir, "breaker@n1.json"), "{")
	n, err := s.Read(start)
	if err == nil || !strings.Contains(err.Error(), drainsFile) || !strings.Contains(err.Error(), "breaker@n1.json") {
		t.Errorf("error %v", err)
	}
	if n.LastDrain.Valid() || n.HookFailures.Valid() || n.SpoolLimit.Valid() || n.UndeliveredRuns != rt.Some[int64](1) {
		t.Errorf("%+v", n)
	}
	s.Spool, s.StateDir = filepath.Join(s.Spool, "absent"), filepath.Join(s.StateDir, "absent")
	n, err = s.Read(start)
	if err == nil || n.UndeliveredRuns.Valid() || n.Trackers.Valid() || n.SpoolBytes.Valid() || n.DiskFree.Valid() || n.HookFailures.Valid() {
		t.Errorf("without a spool: %+v, %v", n, err)
	}
	if text := printed(t, n); strings.Contains(text, "rt_spool") || strings.Contains(text, "rt_hook_failures") || !strings.Contains(text, "rt_build_info") {
		t.Error(text)
	}
}

func printed(t *testing.T, n site.NodeState) string {
	t.Helper()
	var b strings.Builder
	if err := PrintMetrics(&b, NodeMetrics(n)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMetrics(t *testing.T) {
	n := site.NodeState{
		Version: "1.2", Schema: rt.Some[int64](3), Trackers: rt.Some[int64](2), LastSuccess: rt.Some(start), Delivered: rt.Some[int64](7),
		HookFailures: rt.Some[int64](5), BreakerUntil: rt.Some(start), HooksDisabled: rt.Some(false),
	}
	want := `# HELP rt_build_info Version of rt-spool, and of the spool files that it writes.
# TYPE rt_build_info gauge
rt_build_info{schema="3",version="1.2"} 1
# HELP rt_drain_delivered_runs_total Runs that were delivered.
# TYPE rt_drain_delivered_runs_total counter
rt_drain_delivered_runs_total 7
# HELP rt_drain_last_success_timestamp_seconds End of the last drain that delivered all ended runs.
# TYPE rt_drain_last_success_timestamp_seconds gauge
rt_drain_last_success_timestamp_seconds 1.7723664e+09
# HELP rt_hook_breaker_open Whether the Prologs start no tracker because of failures.
# TYPE rt_hook_breaker_open gauge
rt_hook_breaker_open 1
# HELP rt_hook_failures Prologs in a row that started no tracker.
# TYPE rt_hook_failures gauge
rt_hook_failures 5
# HELP rt_hooks_disabled Whether the file of the kill switch exists.
# TYPE rt_hooks_disabled gauge
rt_hooks_disabled 0
# HELP rt_trackers_alive Trackers that are running.
# TYPE rt_trackers_alive gauge
rt_trackers_alive 2
`
	if d := diff.Diff(want, printed(t, n)); d != "" {
		t.Error(d)
	}
}

// receiver takes registrations and reports of nodes.
type receiver struct {
	*httptest.Server
	takes   bool // it announces in the answer to a registration that it takes reports
	status  int  // of the answer to a report; 0: 200
	reports []site.NodeState
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.Method + " " + req.URL.Path {
		case "POST /runs":
			extensions := ""
			if r.takes {
				extensions = `"extensions":{"rt.node":1},`
			}
			fmt.Fprintf(w, `{"run_id":"r1",%s"upload_uri_prefix":"s3://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t"}}`, extensions)
		case "PUT /nodes":
			var n site.NodeState
			err := json.NewDecoder(req.Body).Decode(&n)
			if err != nil || req.Header.Get("Authorization") != "Bearer token" {
				t.Errorf("a report with %v, %v", req.Header, err)
			}
			r.reports = append(r.reports, n)
			w.WriteHeader(cmp.Or(r.status, http.StatusOK))
		default:
			t.Errorf("%s %s", req.Method, req.URL)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// client returns a client of a new process, which registers a run if registers is set.
func (r *receiver) client(t *testing.T, registers bool) *sentinel.Client {
	t.Helper()
	c, err := sentinel.New(sentinel.Config{HTTP: r.Client(), Endpoint: r.URL, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	if registers {
		if _, err := c.Register(t.Context(), rt.Run{}, rt.Host{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Only a receiver that has announced it gets reports, in later drains too, until it takes none any more.
func TestAfterDrain(t *testing.T) {
	s := newSource(t)
	newRun(t, s, 0, true)
	registers := true
	drained := func(to *receiver, delivered, lost int, drainErr error, isSent bool, problem string) {
		t.Helper()
		before := len(to.reports)
		done := &Drained{Lost: lost}
		done.Delivered = delivered
		got, err := s.AfterDrain(t.Context(), done, drainErr, to.client(t, registers))
		isProblem := problem != "" && err != nil && strings.Contains(err.Error(), problem)
		if got != isSent || (err != nil) != (problem != "") || isProblem != (problem != "") {
			t.Errorf("sent %v, %v", got, err)
		}
		if isSent && len(to.reports) != before+1 {
			t.Errorf("%d reports", len(to.reports))
		}
	}
	public, ours := newReceiver(t), newReceiver(t)
	drained(public, 1, 0, upload.ErrTemporary, false, "")
	drained(public, 2, 1, upload.ErrDamaged, false, "")
	ours.takes = true
	drained(ours, 3, 0, upload.ErrTemporary, true, "")
	n := ours.reports[0]
	if n.Cluster != "alps" || n.Node != "n1" || n.Delivered != rt.Some[int64](6) || n.Lost != rt.Some[int64](1) || n.FailedDrains != rt.Some[int64](1) {
		t.Errorf("%+v", n)
	}
	if last, success := n.LastDrain.Or(start), n.LastSuccess.Or(last(n)); !success.Before(last) || !success.After(start) {
		t.Errorf("last drain %s, last success %s", last, success)
	}
	registers = false
	if err := os.Remove(newRunPath(t, s)); err != nil {
		t.Fatal(err)
	}
	drained(ours, 0, 0, nil, true, "")
	if n := ours.reports[1]; n.Node != "n1" || n.FailedDrains != rt.Some[int64](0) {
		t.Errorf("with an empty spool: %+v", n)
	}
	ours.status = http.StatusBadGateway
	drained(ours, 0, 0, nil, false, "502")
	ours.status = http.StatusNotFound
	drained(ours, 0, 0, nil, false, "404")
	ours.status = 0
	drained(ours, 0, 0, nil, false, "")
	drained(public, 0, 0, nil, false, "")
	if len(public.reports) != 0 {
		t.Errorf("%d reports to a service that takes none", len(public.reports))
	}
}

func last(n site.NodeState) time.Time { return n.LastDrain.Or(time.Time{}) }

// newRunPath returns the only run of a spool.
func newRunPath(t *testing.T, s Node) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.Spool, "*.db"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	return paths[0]
}

// A copy of a spool on another machine does not report as the node from which it is.
func TestCopiedSpool(t *testing.T) {
	s := newSource(t)
	ours := newReceiver(t)
	write(t, filepath.Join(s.Spool, drainsFile), fmt.Sprintf(`{"host":"another","cluster":"alps","node":"n7","last":"2026-03-01T12:00:00Z","receiver":%q,"takes_reports":true}`, ours.URL))
	if isSent, err := s.AfterDrain(t.Context(), &Drained{}, nil, ours.client(t, false)); isSent || err != nil || len(ours.reports) != 0 {
		t.Errorf("sent %v, %v, %+v", isSent, err, ours.reports)
	}
}
