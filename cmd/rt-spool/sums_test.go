package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/auth"
	"github.com/resource-tracker/rt/site/page"
	"github.com/resource-tracker/rt/site/registry"
)

// randomSite stores random jobs in a registry. Their figures have few binary digits, so that each sum is exact: then an
// order of the additions cannot hide a difference.
type randomSite struct {
	t        *testing.T
	registry *registry.Registry
	r        *rand.Rand
	stored   int
	waiting  sync.WaitGroup
	busy     chan struct{}
}

func (s *randomSite) oneOf(texts ...string) string { return texts[s.r.IntN(len(texts))] }

// addJob stores a job of one or two nodes, perhaps with an attempt before, a run of a step, and a run that is
// registered twice.
func (s *randomSite) addJob(id uint64) {
	week := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC).AddDate(0, 0, 7*s.r.IntN(8)) // a Tuesday
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(id), Start: week.Add(time.Duration(s.r.IntN(3*86400)) * time.Second)},
		Allocation: rt.Allocation{User: s.oneOf("anna", "bob", "carl", "dora", ""), Account: s.oneOf("chem", "physics"), Partition: s.oneOf("batch", "gpu", "")},
		Meta:       rt.Metadata{JobName: "md"},
	}
	hasFigures, gpus := s.r.IntN(10) > 0, s.r.IntN(3)
	for attempt := range 1 + s.r.IntN(4)/3 {
		for node := range 1 + s.r.IntN(2) {
			run.Node, run.Attempt = fmt.Sprint("n", node), uint64(attempt)
			sum := s.figures(run, gpus, hasFigures)
			s.add(sum, hasFigures)
			switch s.r.IntN(8) {
			case 0:
				s.add(sum, hasFigures)
			case 1:
				sum.Run.Step = "0"
				s.add(sum, hasFigures)
			}
		}
		run.Start = run.Start.Add(time.Hour)
	}
}

func (s *randomSite) figures(run rt.Run, gpus int, hasFigures bool) *report.Summary {
	quarters := func(most int) rt.Opt[float64] { return rt.Some(float64(s.r.IntN(4*most)) / 4) }
	run.Ending = rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: run.Start.Add(30 * time.Minute)}
	sum := &report.Summary{Run: run, Label: run.Label(), ElapsedSecs: quarters(1800)}
	sum.Record.Last = run.End
	if !hasFigures {
		return sum
	}
	sum.CPU.CPUPart = report.CPUPart{Used: report.Used{UsedSecs: quarters(20000), UsedMark: report.Mark(s.oneOf("", string(report.AtLeast)))}, AllocatedSecs: quarters(16000), CoresOf: "allocation"}
	sum.Memory.MemoryPart = report.MemoryPart{LimitBytes: rt.Some(uint64(1+s.r.IntN(1<<16)) << 20), LimitOf: "cgroup"}
	sum.Memory.PeakBytes = rt.Some(uint64(1+s.r.IntN(1<<15)) << 20)
	for range gpus {
		sum.GPUs = append(sum.GPUs, report.GPU{GPUPart: report.GPUPart{InJob: rt.Some(true), BusyPct: rt.Some(12.5 * float64(s.r.IntN(9)))}})
	}
	return sum
}

// add stores a run as a node delivers it.
func (s *randomSite) add(sum *report.Summary, hasFigures bool) {
	run, id := sum.Run, fmt.Sprintf("20260301t120000-%026d", s.stored)
	s.stored++
	text, err := json.Marshal(sum.Delivered())
	if err != nil {
		s.t.Fatal(err)
	}
	if !hasFigures {
		text = nil
	}
	s.busy <- struct{}{}
	s.waiting.Go(func() { // runs at the same time share the syncs of the disk
		defer func() { <-s.busy }()
		ctx, runs := context.Background(), s.registry.Runs
		err := runs.Create(ctx, site.StoredRun{ID: id, Owner: "nodes", Created: run.Start, Metadata: []byte(`{}`)})
		if err == nil {
			_, err = runs.PutObject(ctx, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: id}, []byte("r"), &run)
		}
		if err == nil {
			_, err = runs.Finish(ctx, id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: text}, nil, nil)
		}
		if err != nil {
			s.t.Error(err)
		}
	})
}

// serve starts the service with its pages, for an operator with the token all and for anna.
func (s *randomSite) serve(dir string) (url string) {
	readers, err := auth.New(auth.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	tokens, err := auth.ParseTokens([]byte("all\nanna user=anna\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	readers.SetTokens(tokens)
	fault := func(err error) { s.t.Error(err) }
	server, err := api.New(s.t.Context(), api.Config{
		Registry: s.registry, Objects: testsite.Memory(), Temp: dir, Tokens: []api.Token{{}}, Readers: readers, Fault: fault, Pages: page.New(page.Config{Registry: s.registry, Fault: fault}),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	web := httptest.NewServer(server)
	s.t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return web.URL
}

func getAs(t *testing.T, token, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("any", token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s, %v", url, answer.StatusCode, body, err)
	}
	return body
}

// rowOfPage finds the rows of the tables of the page: name, jobs, waste, and the cells of CPU, GPU and memory.
var (
	rowOfPage = regexp.MustCompile(`<tr><th scope="row">(?:<a [^>]*>)?([^<]*)(?:</a>)?</th><td class="n"[^>]*>(?:<a [^>]*>)?([^<]*)(?:</a>)?</td><td class="n"[^>]*>(?:<span [^>]*>)?([^<]*)(?:</span>)?</td><td>[^<]*</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>`)
	usedOf    = regexp.MustCompile(`<span class="of"[^>]*>(.*)</span>`)
)

// hoursOfPage formats hours as the pages do.
func hoursOfPage(hours rt.Opt[float64]) string {
	h, isKnown := hours.Get()
	switch {
	case !isKnown:
		return "–"
	case h == 0:
		return "0"
	case h >= 100:
		return strconv.FormatInt(int64(h+0.5), 10)
	case h >= 10:
		return strconv.FormatFloat(h, 'f', 1, 64)
	}
	return strconv.FormatFloat(h, 'f', 2, 64)
}

// The sums of many jobs are the same in rt-job, on the page, in the API and in Grafana, to the last digit.
func TestSumsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	jobs := 10_000
	if testing.Short() {
		jobs = 300
	}
	dir, seed := t.TempDir(), random.Seed(t)
	reg, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &randomSite{t: t, registry: reg, r: rand.New(rand.NewPCG(seed, 0)), busy: make(chan struct{}, 64)}
	for id := range jobs {
		s.addJob(uint64(id + 1))
	}
	s.waiting.Wait()
	url := s.serve(dir)
	conf := fmt.Sprintf("[site]\nsqueue = \"off\"\nurl = %q\ntoken_file = %q\n[spool]\ndir = %q\n", url, filepath.Join(dir, "token"), filepath.Join(dir, "none"))
	for name, text := range map[string]string{"rt.toml": conf, "token": "all\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for by, place := range map[string]struct{ page, table string }{
		"user": {"users", "totals"}, "account": {"accounts", "totals"}, "partition": {"users", "partitions"}, "week": {"users", "weeks"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), []string{"rt-job", "--config", filepath.Join(dir, "rt.toml"), "-a", "--since", "2026-01-01", "--by", by, "--json"}, &stdout, &stderr)
		var ofCLI []runs.Sum
		if err := json.Unmarshal(stdout.Bytes(), &ofCLI); err != nil || status != 0 {
			t.Fatalf("rt-job --by %s: status %d, %v: %s", by, status, err, stderr.String())
		}
		var ofAPI struct {
			Sums      []runs.Sum
			IsPartial bool `json:"is_partial"`
		}
		if err := json.Unmarshal(getAs(t, "all", url+"/v1/sums?since=2026-01-01T00:00:00Z&by="+by), &ofAPI); err != nil || ofAPI.IsPartial {
			t.Fatal(err, ofAPI.IsPartial)
		}
		ofPage := map[string][]string{}
		_, table, _ := strings.Cut(string(getAs(t, "all", url+"/"+place.page+"?since=2026-01-01&until=2026-12-31")), `<h2 id="`+place.table+`">`)
		table, _, _ = strings.Cut(table, "</table>")
		for _, row := range rowOfPage.FindAllStringSubmatch(table, -1) {
			for i := range row {
				row[i] = html.UnescapeString(strings.ReplaceAll(row[i], "\u202f", "")) // between groups of digits
			}
			ofPage[row[1]] = row[2:]
		}
		all := int64(0)
		want := map[string]runs.Sum{}
		for _, sum := range ofAPI.Sums {
			want[sum.Name] = sum
			all += int64(sum.Jobs)
			comparePage(t, by, &sum, ofPage)
		}
		if all != int64(jobs) || len(want) != len(ofCLI) {
			t.Errorf("by %s the API has %d jobs in %d groups, rt-job %d groups", by, all, len(want), len(ofCLI))
		}
		for _, sum := range ofCLI {
			if got := want[sum.Name]; got != sum {
				t.Errorf("by %s: rt-job\n%+v, the API\n%+v", by, sum, got)
			}
		}
		if column := map[string]string{"user": "username", "account": "account", "partition": "partition"}[by]; column != "" {
			compareGrafana(t, filepath.Join(dir, "registry.db"), column, want)
		}
	}
	var own struct{ Sums []runs.Sum }
	if err := json.Unmarshal(getAs(t, "anna", url+"/v1/sums?by=user"), &own); err != nil || len(own.Sums) != 1 || own.Sums[0].Name != "anna" {
		t.Errorf("anna sees %+v, %v", own, err)
	}
}

// compareGrafana compares the sums of the API with what the panel of the dashboard that groups by the column shows.
func compareGrafana(t *testing.T, database, column string, want map[string]runs.Sum) {
	t.Helper()
	text, err := os.ReadFile("../../contrib/grafana/rt-jobs-sqlite.json")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile(`"queryText": ("SELECT .* GROUP BY ` + column + ` ORDER BY waste .*")`).FindSubmatch(text)
	var query string
	if quoted == nil || json.Unmarshal(quoted[1], &query) != nil {
		t.Fatalf("the dashboard has no panel by %s", column)
	}
	query = strings.NewReplacer("$__from", "0", "$__to", "4102444800000", "${cluster:sqlstring}", "'c'", "${account:sqlstring}", "'chem', 'physics'").Replace(query)
	db, err := sql.Open("sqlite3", "file:"+database+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), "SELECT "+column+", jobs, waste, \"core-hours\", \"GPU-hours\", \"GiB-hours\" FROM ("+strings.Replace(query, "SELECT ", "SELECT "+column+", ", 1)+")")
	if err != nil {
		t.Fatalf("%v: %s", err, query)
	}
	defer func() { _ = rows.Close() }()
	groups := 0
	for rows.Next() {
		var name string
		var jobs int
		var waste, cores, gpus, gib sql.Null[float64]
		if err := rows.Scan(&name, &jobs, &waste, &cores, &gpus, &gib); err != nil {
			t.Fatal(err)
		}
		sum := want[name]
		got := runs.Sum{Name: sum.Name, Jobs: jobs}
		got.WasteHours, got.CoreHours, got.GPUHours, got.GiBHours = optional(waste), optional(cores), optional(gpus), optional(gib)
		isSame := got.Jobs == sum.Jobs && got.WasteHours == sum.WasteHours && got.CoreHours == sum.CoreHours && got.GPUHours == sum.GPUHours && got.GiBHours == sum.GiBHours
		if !isSame {
			t.Errorf("by %s, %q: Grafana\n%+v, the API\n%+v", column, name, got, sum)
		}
		groups++
	}
	if err := rows.Err(); err != nil || groups != len(want) {
		t.Errorf("by %s: Grafana has %d groups, the API %d (%v)", column, groups, len(want), err)
	}
}

func optional(v sql.Null[float64]) rt.Opt[float64] {
	if !v.Valid {
		return rt.None[float64]()
	}
	return rt.Some(v.V)
}

// comparePage compares a sum of the API with the row of the page.
func comparePage(t *testing.T, by string, sum *runs.Sum, ofPage map[string][]string) {
	t.Helper()
	name := sum.Name
	if name == "" {
		name = "(none)"
	}
	row := ofPage[name]
	if row == nil {
		t.Errorf("by %s: the page has no row of %s", by, name)
		return
	}
	waste := sum.WasteMark.Sign(hoursOfPage(sum.WasteHours))
	if row[0] != fmt.Sprint(sum.Jobs) || row[1] != waste {
		t.Errorf("by %s: the page has %s jobs of %s and the waste %s, the API %d and %s", by, row[0], name, row[1], sum.Jobs, waste)
	}
	for i, pair := range [][2]rt.Opt[float64]{{sum.UsedCoreHours, sum.CoreHours}, {sum.UsedGPUHours, sum.GPUHours}, {sum.UsedGiBHours, sum.GiBHours}} {
		mark := report.Exact
		if i == 0 {
			mark = sum.WasteMark.Rest() // the memory has none
		}
		want := mark.Sign(hoursOfPage(pair[0])) + " of " + hoursOfPage(pair[1])
		cell := usedOf.FindStringSubmatch(row[2+i])
		if cell == nil || cell[1] != want {
			t.Errorf("by %s: the page has %s of %s, the API %s", by, row[2+i], name, want)
		}
	}
}
