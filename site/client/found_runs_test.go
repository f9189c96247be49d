package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// makeRun makes a run with so many readings in a directory.
func makeRun(t *testing.T, dir string, job uint64, node string, readings int64, state rt.State) spool.Entry {
	t.Helper()
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Node: node, Start: start.Add(time.Duration(job) * time.Minute)},
		Allocation: rt.Allocation{User: "anna"},
		Meta:       rt.Metadata{JobName: "md"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range readings {
		s := rt.Snapshot{Seq: i + 1, Wall: run.Start.UnixNano() + i*1e9, Boot: i * 1e9}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	end := w.Close
	if state == rt.StateEnded {
		run.Outcome, run.End = rt.OutcomeFinished, run.Start.Add(time.Minute)
		end = func() error { return w.End(run) }
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return entryOf(t, w.Path())
}

func entryOf(t *testing.T, path string) spool.Entry {
	t.Helper()
	found, err := spool.FindJob("", path)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// service is a site with the records of runs, and what it says of them.
type service struct {
	jobs    map[string]map[string]any // by job and node
	records map[string][]byte         // by id of the run

	mu    sync.Mutex
	asked []string
}

// add adds the run of a file. Its id is the job and the node.
func (s *service) add(t *testing.T, e spool.Entry) (id string) {
	t.Helper()
	r, err := spool.Open(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var record bytes.Buffer
	if err := archive.Write(t.Context(), &record, r, nil); err != nil {
		t.Fatal(err)
	}
	sum, err := report.Summarize(r.Run(), nil, r.Snapshots(t.Context(), 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	id = fmt.Sprintf("%s-%s", e.Run.Label(), e.Run.Node)
	if s.jobs == nil {
		s.jobs, s.records = map[string]map[string]any{}, map[string][]byte{}
	}
	s.records[id] = record.Bytes()
	run := map[string]any{"run_id": id, "node": e.Run.Node, "step": nil, "attempt": 0, "state": e.Run.State, "outcome": e.Run.Outcome, "start": e.Run.Start, "end": nil, "has_record": true, "summary": nil}
	if e.Run.State != rt.StateRunning {
		run["end"], run["summary"] = e.Run.End, sum.Delivered()
	}
	s.jobs[id] = map[string]any{"cluster": "c", "job_id": e.Run.JobID, "user": "anna", "job_name": "md", "runs": []any{run}}
	return id
}

func (s *service) run(id string) map[string]any {
	return s.jobs[id]["runs"].([]any)[0].(map[string]any)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.RequestURI())
	s.mu.Unlock()
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/runs/"); ok {
		id = strings.TrimSuffix(id, "/record")
		w.Header().Set("ETag", `"`+sumOf(s.records[id])+`"`)
		_, _ = w.Write(s.records[id]) // the client may have closed the connection
		return
	}
	jobs := []any{}
	for id, j := range s.jobs {
		want := r.URL.Query().Get("job_id")
		if want == "" || strings.HasPrefix(id, want+"-") {
			jobs = append(jobs, j)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"jobs": jobs, "next": ""})
}

func (s *service) client(t *testing.T) *Client {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{URL: srv.URL, TokenFile: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// fetched looks for a job and fetches it; its files are removed at the end.
func fetched(t *testing.T, c *Client, job string, local ...spool.Entry) (j *FoundJob, warnings []error, err error) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	j, err = c.Look(t.Context(), Wanted{Job: job, Dir: "/no/spool", Local: local, LocalErr: localError(local)})
	if err != nil {
		return nil, nil, err
	}
	err = j.Fetch(t.Context(), func(err error) { warnings = append(warnings, err) })
	t.Cleanup(func() {
		_ = j.Close(nil) // j.Err
		if left, err := os.ReadDir(temp); len(left) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return j, warnings, err
}

func localError(local []spool.Entry) error {
	if len(local) == 0 {
		return spool.ErrNotFound
	}
	return nil
}

// Of two copies of a run one is shown: the one that has ended, or else has more readings, or else the
// local one.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		name         string
		local, site  int64
		localState   rt.State
		siteState    rt.State
		wantsSite    bool
		wantsRequest bool
	}{
		{"equal", 3, 3, rt.StateEnded, rt.StateEnded, false, false},
		{"running here, ended there", 9, 3, rt.StateRunning, rt.StateEnded, true, true},
		{"ended here, running there", 3, 9, rt.StateEnded, rt.StateRunning, false, false},
		{"running with more here", 9, 3, rt.StateRunning, rt.StateRunning, false, true},
		{"running with more there", 3, 9, rt.StateRunning, rt.StateRunning, true, true},
		{"running, equal", 3, 3, rt.StateRunning, rt.StateRunning, false, true},
	} {
		s := &service{}
		local := makeRun(t, t.TempDir(), 12, "n1", c.local, c.localState)
		s.add(t, makeRun(t, t.TempDir(), 12, "n1", c.site, c.siteState))
		s.add(t, makeRun(t, t.TempDir(), 12, "n2", 4, rt.StateEnded))
		j, warnings, err := fetched(t, s.client(t), "12", local)
		if err != nil || j.Err != nil || len(warnings) > 0 || len(j.Entries) != 2 || len(j.Names()) != 2 {
			t.Fatalf("%s: %d runs, %v, %v, %v", c.name, len(j.Entries), err, j.Err, warnings)
		}
		if isSite := j.IsFetched(j.Entries[0].Path); isSite != c.wantsSite || !j.IsFetched(j.Entries[1].Path) || j.Entries[1].Run.Node != "n2" {
			t.Errorf("%s: the copy of the site is shown: %t", c.name, isSite)
		}
		if asked := slices.Contains(s.asked, "/v1/runs/12-n1/record"); asked != c.wantsRequest {
			t.Errorf("%s: asked for %q", c.name, s.asked)
		}
	}
}

// A run without a record is named, with what is known of it.
func TestWithoutRecord(t *testing.T) {
	s := &service{}
	s.add(t, makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded))
	id := s.add(t, makeRun(t, t.TempDir(), 12, "n2", 3, rt.StateEnded))
	s.run(id)["has_record"] = false
	j, warnings, err := fetched(t, s.client(t), "12")
	if err != nil || j.Err != nil || len(j.Entries) != 1 || len(warnings) != 1 {
		t.Fatalf("%+v, %v, %v", j, err, warnings)
	}
	began := start.Add(12 * time.Minute).Local().Format(time.DateTime)
	if got := warnings[0].Error(); !strings.HasPrefix(got, "the run of job 12 on node n2: the site has no complete record of it, only this: finished, began "+began+", ended ") {
		t.Error(got)
	}
	s.run("12-n1")["has_record"] = false
	if _, _, err := fetched(t, s.client(t), "12"); !errors.Is(err, ErrNoRecord) || strings.Count(err.Error(), "only this") != 2 {
		t.Errorf("%v", err)
	}
	local := makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded) // it has what the site does not
	if j, warnings, err := fetched(t, s.client(t), "12", local); err != nil || len(j.Entries) != 1 || len(warnings) != 1 {
		t.Errorf("%v, %v", warnings, err)
	}
}

// A record that is not what the list says is refused. The error names the run; the other runs are shown.
func TestHostileRecords(t *testing.T) {
	record := func(t *testing.T, e spool.Entry) []byte {
		s := &service{}
		return s.records[s.add(t, e)]
	}
	other := record(t, makeRun(t, t.TempDir(), 99, "n1", 3, rt.StateEnded))
	for _, c := range []struct {
		name   string
		record []byte
		want   string
	}{
		{"of another run", other, "belongs to another run (job-99-n1-"},
		{"cut", other[:len(other)-5], "damaged record"},
		{"a spool file", []byte("SQLite format 3\x00"), "damaged record"},
		{"empty", nil, "damaged record"},
	} {
		s := &service{}
		s.add(t, makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded))
		s.records[s.add(t, makeRun(t, t.TempDir(), 12, "n2", 3, rt.StateEnded))] = c.record
		j, _, err := fetched(t, s.client(t), "12")
		if err != nil || len(j.Entries) != 1 {
			t.Fatalf("%s: %v", c.name, err)
		}
		if text := fmt.Sprint(j.Err); !strings.Contains(text, "the run of job 12 on node n2: the record from the site http://") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	s := &service{}
	id := s.add(t, makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded))
	s.run(id)["node"], s.run(id)["attempt"] = "n\x1b[2J", 3
	if _, _, err := fetched(t, s.client(t), "12"); err == nil || strings.ContainsRune(err.Error(), 0x1b) || !strings.Contains(err.Error(), "attempt 3") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.client(t).Look(ctx, Wanted{Job: "12", LocalErr: spool.ErrNotFound}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The figures of a list are the figures of the runs. A run that has not ended, or has another run's
// figures, is in the list with what the site says.
func TestFigures(t *testing.T) {
	s := &service{}
	s.add(t, makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded))
	s.add(t, makeRun(t, t.TempDir(), 13, "n1", 3, rt.StateRunning))
	forged := s.add(t, makeRun(t, t.TempDir(), 14, "n1", 3, rt.StateEnded))
	s.run(forged)["summary"] = s.run("12-n1")["summary"]
	figures, err := s.client(t).Figures(t.Context(), Query{Since: start, Until: start.Add(time.Hour)})
	if err != nil || len(figures) != 3 {
		t.Fatalf("%d, %v", len(figures), err)
	}
	for _, f := range figures {
		isDelivered := f.Run.JobID == rt.Some[uint64](12)
		if f.Run.User != "anna" || f.Run.Meta.JobName != "md" || f.Run.Node != "n1" || (f.Run.State == rt.StateRunning) != (f.Label == "13") || f.Record.Complete && !isDelivered || f.ElapsedSecs.Valid() != isDelivered {
			t.Errorf("%+v", f)
		}
	}
	if !strings.Contains(s.asked[0], "since=2026-03-01T11%3A00%3A00Z&until=2026-03-01T14%3A00%3A00Z") {
		t.Errorf("asked for %s", s.asked[0])
	}
}

// A site that has runs under pseudonyms selects them by the name of the user: the list shows them too.
func TestUsers(t *testing.T) {
	var copies []runs.Copy
	for _, user := range []string{"user-x", "", "anna"} {
		copies = append(copies, runs.Copy{Summary: &report.Summary{Run: rt.Run{Allocation: rt.Allocation{User: user}}}})
	}
	many := strings.Split(strings.Repeat("bob,", 17)+"anna", ",")
	for _, test := range []struct{ asked, want []string }{
		{[]string{"anna"}, []string{"anna", "user-x"}},
		{nil, nil},
		{many, many}, // the site does not select by so many users
	} {
		if got := Users(Query{Users: test.asked}, copies); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.asked, got, test.want)
		}
	}
}

// The earlier runs of a job are the ended runs of its exact name. No record is asked for.
func TestEarlier(t *testing.T) {
	s := &service{}
	s.add(t, makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded))
	s.add(t, makeRun(t, t.TempDir(), 13, "n1", 3, rt.StateRunning))
	s.jobs[s.add(t, makeRun(t, t.TempDir(), 14, "n1", 3, rt.StateEnded))]["job_name"] = "md2"
	jobs := report.Jobs([]*report.Summary{
		{Label: "15", Run: rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](15), Start: start}, Allocation: rt.Allocation{User: "anna"}, Meta: rt.Metadata{JobName: "md"}}},
		{Label: "16", Run: rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](16), Start: start.Add(time.Hour)}, Allocation: rt.Allocation{User: "anna"}, Meta: rt.Metadata{JobName: "md"}}},
		{Label: "17", Run: rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](17)}}},
	})
	list, err := s.client(t).Earlier(t.Context(), jobs)
	if err != nil || len(list) != 1 || list[0].Run.JobID != rt.Some[uint64](12) {
		t.Errorf("%d runs, %v", len(list), err)
	}
	if want := "/v1/jobs?cluster=c&job_name=md&limit=1000&until=2026-03-01T13%3A01%3A00Z&user=anna"; len(s.asked) != 1 || s.asked[0] != want {
		t.Errorf("asked for %q, want %q", s.asked, want)
	}
}

func sumOf(record []byte) string { return fmt.Sprintf("%x", sha256.Sum256(record)) }

// A run that is registered twice is one run. If the record of one registration cannot be had, the
// other one's record is used.
func TestTwoRegistrations(t *testing.T) {
	good := makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded)
	for _, c := range []struct {
		name   string
		change func(s *service, first, second map[string]any)
		asked  string // ids of the runs: their records are asked for
	}{
		{"the newer one", func(*service, map[string]any, map[string]any) {}, "9"},
		{"the one with a record", func(_ *service, _, second map[string]any) { second["has_record"] = false }, "12-n1"},
		{"the one that has ended", func(_ *service, _, second map[string]any) { second["state"] = rt.StateRunning }, "12-n1"},
		{"the other one if the record is damaged", func(s *service, _, _ map[string]any) { s.records["9"] = s.records["9"][:len(s.records["9"])-5] }, "9 12-n1"},
		{"the job is in two pages", func(_ *service, _, second map[string]any) { second["run_id"] = "12-n1" }, "12-n1"},
	} {
		s := &service{}
		first := s.run(s.add(t, good))
		second := maps.Clone(first)
		second["run_id"], s.records["9"] = "9", s.records["12-n1"]
		s.jobs["12-n1"]["runs"] = []any{first, second}
		c.change(s, first, second)
		j, warnings, err := fetched(t, s.client(t), "12")
		if err != nil || j.Err != nil || len(warnings) > 0 || len(j.Entries) != 1 || len(j.Names()) != 1 {
			t.Errorf("%s: %v, %v, %v", c.name, err, j, warnings)
		}
		var asked []string
		for _, path := range s.asked[1:] {
			asked = append(asked, strings.TrimSuffix(strings.TrimPrefix(path, "/v1/runs/"), "/record"))
		}
		if got := strings.Join(asked, " "); got != c.asked {
			t.Errorf("%s: asked for %q, want %q", c.name, got, c.asked)
		}
	}
}

// Of a run that is not delivered the site has the figures so far. They are used if the run is in no other place.
func TestFiguresSoFar(t *testing.T) {
	arrived, live := makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded), makeRun(t, t.TempDir(), 12, "n2", 3, rt.StateRunning)
	figures := (&report.Summary{Run: live.Run, Label: "12"}).Figures()
	for _, tt := range []struct {
		name    string
		runs    bool // the site has a run that has arrived
		local   []spool.Entry
		node    string
		err     error
		figures int
	}{
		{"nothing has arrived", false, nil, "", ErrNotArrived, 1},
		{"another node's run has arrived", true, nil, "", nil, 1},
		{"the run is here", false, []spool.Entry{live}, "", nil, 0},
		{"of another node", false, nil, "n1", spool.ErrNotFound, 0},
	} {
		s := &service{}
		job := s.jobs[s.add(t, arrived)]
		job["live"] = []any{figures}
		if !tt.runs {
			job["runs"] = []any{}
		}
		c := s.client(t)
		j, err := c.Look(t.Context(), Wanted{Job: "12", Node: tt.node, Dir: "/no/spool", Local: tt.local, LocalErr: localError(tt.local)})
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		var list []*report.Summary
		if j != nil {
			list = j.LiveSummaries()
		}
		if len(list) != tt.figures {
			t.Errorf("%s: the figures of %d runs", tt.name, len(list))
		}
		for _, f := range list {
			if f.Run.Node != "n2" || f.Run.State != rt.StateRunning || f.Partial != c.URL() {
				t.Errorf("%s: %+v", tt.name, f.Run)
			}
		}
	}
}

// After the file that exceeds the limit nothing is fetched, and that file is removed.
func TestLimitOfFiles(t *testing.T) {
	s := &service{}
	s.add(t, makeRun(t, t.TempDir(), 12, "n1", 3, rt.StateEnded))
	c, dir := s.client(t), t.TempDir()
	runs, err := c.Find(t.Context(), "12")
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	f := fetcher{client: c, dir: dir}
	for range 2 {
		if _, err := f.fetchRun(t.Context(), &runs[0]); err == nil || !strings.Contains(err.Error(), "--node selects one") {
			t.Errorf("%v", err)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if len(s.asked) != 2 {
		t.Errorf("asked for %q", s.asked)
	}
}
