package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/e2e/runtest"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// The read tokens of the pages: of an operator and of two users.
const pageTokens = "page-all\npage-alice user=alice\npage-bob user=bob\n"

// payloads run a script, or break out of their place, if a page does not escape them.
var payloads = []string{
	`<script>window.hit=1</script>`, `"><img src=x onerror=window.hit=1>`, `'><svg/onload=window.hit=1>`, `javascript:window.hit=1`, `</title><script>window.hit=1</script>`,
	`</textarea><script>window.hit=1</script>`, `" autofocus onfocus="window.hit=1`, `{{.Reader}}`, `</script><script>window.hit=1</script>`, `<!--<script>window.hit=1</script>`,
	`<a href="javascript:window.hit=1">x</a>`, `&lt;script&gt;window.hit=1&lt;/script&gt;`, "\u202e<b>x", `%3Cscript%3Ewindow.hit=1%3C/script%3E`, `<iframe srcdoc="<script>parent.hit=1</script>">`,
}

// storeJob stores a run as a node delivers it: the record and the figures.
func storeJob(ctx context.Context, dir string, r *registry.Registry, n int, change func(*rt.Run)) error {
	run, list := runtest.Job()
	return storeRun(ctx, dir, r, n, run, list, change)
}

// storeRun is storeJob with the readings of a run.
func storeRun(ctx context.Context, dir string, r *registry.Registry, n int, run rt.Run, list []rt.Snapshot, change func(*rt.Run)) error {
	run.JobID, run.Scheduler, run.BootID, run.Interval, run.TrackerVersion = rt.Some(uint64(n)), "slurm", "b", 10, rt.Version
	run.Start = run.Start.Add(time.Duration(n) * time.Hour)
	run.AllocMem = rt.Some[uint64](1 << 30)
	change(&run)
	w, err := spool.Create(dir, run, rt.Host{HostName: run.Node}, spool.Options{})
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Wall += int64(n) * 3600e9
		if err := w.Put(&list[i]); err != nil {
			return err
		}
	}
	run.State, run.Outcome, run.End = rt.StateEnded, rt.OutcomeFinished, run.Start.Add(20*time.Minute)
	if err := w.End(run); err != nil {
		return err
	}
	from, err := spool.Open(w.Path())
	if err != nil {
		return err
	}
	var record bytes.Buffer
	err = archive.Write(ctx, &record, from, nil)
	run = from.Run()
	s, failed := rtreport.Summarize(run, nil, from.Snapshots(ctx, 1, 0))
	if err := errors.Join(err, failed, from.Close()); err != nil {
		return err
	}
	summary, err := json.Marshal(s.Delivered())
	if err != nil {
		return err
	}
	id := "20260301t120000-" + strings.Map(func(c rune) rune { return c - '0' + 'a' }, fmt.Sprintf("%026d", n)) // an id has no 0 and no 1
	if err := r.Runs.Create(ctx, site.StoredRun{ID: id, Owner: "owner", Created: run.Start, Metadata: []byte(`{}`)}); err != nil {
		return err
	}
	sum := sha256.Sum256(record.Bytes())
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(record.Len()), SHA256: hex.EncodeToString(sum[:])}
	if _, err := r.Runs.PutObject(ctx, o, record.Bytes(), &run); err != nil {
		return err
	}
	_, err = r.Runs.Finish(ctx, id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: summary}, nil, nil)
	return err
}

// newPageSite starts the service with jobs of alice and bob, and with jobs of mallory that have the payloads
// in all texts. It returns its URL.
func newPageSite(t *testing.T) string {
	t.Helper()
	dir, spools := t.TempDir(), t.TempDir()
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		user := []string{"alice", "bob"}[n%2]
		err = errors.Join(err, storeJob(t.Context(), spools, r, n+1, func(run *rt.Run) {
			run.User, run.Account, run.Partition, run.Meta.JobName = user, user+"-lab", "batch", "train-"+user
			run.AllocCPUs = rt.Some(uint64(2 + n))
		}))
	}
	for i, text := range payloads {
		err = errors.Join(err, storeJob(t.Context(), spools, r, 100+i, func(run *rt.Run) {
			run.User, run.Account, run.Partition, run.Node, run.Comment, run.Cluster, run.QOS = text, text, text, text, text, text, text
			run.Meta.JobName, run.Meta.Tags, run.Command, run.NodeList = text, map[string]string{text: text}, []string{text, text}, text
		}))
		err = errors.Join(err, r.Nodes.Put(t.Context(), "owner", site.NodeState{Cluster: text, Node: text, Version: text, Time: time.Now(), FailedDrains: rt.Some[int64](3)}, time.Now()))
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return servePages(t, dir)
}

// servePages starts the service with a registry in a directory, and with more lines in [serve]. It returns its URL.
func servePages(t *testing.T, dir string, more ...string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := t.TempDir()
	for name, text := range map[string]string{
		"tokens": testToken, "readers": pageTokens, "rt.toml": fmt.Sprintf("[serve]\nread_token_file = %q\n", filepath.Join(conf, "readers")) + strings.Join(more, "\n"),
	} {
		if err := os.WriteFile(filepath.Join(conf, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	out, to := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"--config", filepath.Join(conf, "rt.toml"), "serve", "--listen", "127.0.0.1:0", "--dir", dir, "--token-file", filepath.Join(conf, "tokens")}, to, &stderr)
		to.Close()
	}()
	t.Cleanup(func() {
		stop()
		if status := <-ended; status != 0 {
			t.Errorf("rt-site serve exits with %d: %s", status, stderr.String())
		}
		if strings.Contains(stderr.String(), "make the ") {
			t.Errorf("a page was not made: %s", stderr.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("rt-site serve does not listen: %v", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// page gets a page as the holder of a read token.
func getPage(t *testing.T, url, token string) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.SetBasicAuth("any", token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// Two users and an operator see the jobs that they may see, on all pages. No page runs a script
// from the texts that users choose.
func TestPages(t *testing.T) {
	base := newPageSite(t)
	for _, c := range []struct {
		token, path string
		status      int
		has, lacks  []string
	}{
		{"", "/jobs", 401, []string{"the request does not show who sends it", "as the password, a read token"}, []string{"alice", "{"}},
		{"no-token", "/jobs", 401, []string{"as the password, a read token"}, []string{"alice"}},
		{"page-alice", "/", 200, []string{"My week", "Running now", "No job is running."}, []string{"bob", ">2</a>", "hit", "nodes", "The cluster now"}},
		{"page-all", "/", 200, []string{"The site&#39;s week", "The cluster now", "Nodes to act on"}, nil},
		{"page-alice", "/jobs", 200, []string{"train-alice", ">1</a>", ">3</a>", ">5</a>"}, []string{"bob", ">2</a>", "hit", "nodes"}},
		{"page-alice", "/find?q=3", 200, []string{"Job 3", "train-alice", "Way back"}, nil},
		{"page-bob", "/jobs", 200, []string{"train-bob"}, []string{"alice", "hit"}},
		{"page-all", "/jobs", 200, []string{"train-alice", "train-bob", `href="nodes"`, `href="v1/openapi.json"`}, nil},
		{"page-alice", "/jobs?sort=waste", 200, []string{"train-alice"}, []string{"bob"}},
		{"page-alice", "/jobs?user=bob", 200, []string{"There is no job"}, []string{"train-bob"}},
		{"page-all", "/jobs?user=bob&node=n7&name=TRAIN&partition=batch&account=bob-lab&state=ended&outcome=finished&since=2026-03-01&until=2026-03-02", 200, []string{"train-bob"}, []string{"train-alice"}},
		{"page-all", "/jobs?node=n8", 200, []string{"There is no job"}, nil},
		{"page-all", "/jobs?sort=other", 400, []string{"sort"}, nil},
		{"page-all", "/jobs?since=now", 400, nil, nil},
		{"page-all", "/jobs?cursor=x", 400, nil, nil},
		{"page-alice", "/job?cluster=c&id=1", 200, []string{"train-alice", "report.json?cluster=c", "CSV of n7", "Advice", "<code>--"}, []string{"bob"}},
		{"page-alice", "/job?cluster=c&id=2", 404, nil, []string{"train-bob"}},
		{"page-alice", "/report.html?cluster=c&id=2", 404, nil, []string{"train-bob"}},
		{"page-alice", "/report.html?cluster=c&id=1", 200, []string{"train-alice"}, nil},
		{"page-alice", "/report.json?cluster=c&id=1", 200, []string{`"job_name": "train-alice"`}, nil},
		{"page-alice", "/job?cluster=c&id=x", 400, nil, nil},
		{"page-alice", "/users?since=2026-03-01&until=2026-12-31", 200, []string{"alice", "2026-02-23", "train-alice"}, []string{"bob"}},
		{"page-all", "/accounts?since=2026-03-01&until=2026-12-31", 200, []string{"alice-lab", "bob-lab"}, nil},
		{"page-alice", "/nodes", 404, nil, nil},
		{"page-all", "/nodes", 200, []string{"3 failed drains"}, nil},
		{"page-all", "/style.css", 200, []string{"prefers-color-scheme"}, nil},
		{"page-all", "/static", 404, nil, nil},
		{"page-alice", "/v1/whoami", 200, []string{`"alice"`}, nil},
	} {
		status, header, body := getPage(t, base+c.path, c.token)
		if status != c.status {
			t.Errorf("%s: GET %s: %d, want %d: %.300s", c.token, c.path, status, c.status, body)
			continue
		}
		for _, text := range c.has {
			if !strings.Contains(body, text) {
				t.Errorf("%s: GET %s lacks %q: %.3000s", c.token, c.path, text, body)
			}
		}
		for _, text := range c.lacks {
			if strings.Contains(body, text) {
				t.Errorf("%s: GET %s has %q", c.token, c.path, text)
			}
		}
		isPage := status != 401 && c.path != "/static" && !strings.HasPrefix(c.path, "/v1/")
		policy := header.Get("Content-Security-Policy")
		isStrict := strings.HasPrefix(policy, "default-src 'none'") && !strings.Contains(policy, "unsafe") && strings.Contains(policy, "frame-ancestors 'none'")
		if isPage && !isStrict {
			t.Errorf("GET %s: the policy is %q", c.path, policy)
		}
	}
}

// An array of more runs than a report has plots for has a summary with advice, and its files.
func TestPageOfALargeArray(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: an array of 66 jobs")
	}
	const tasks = 66
	dir, spools := t.TempDir(), t.TempDir()
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	for n := range tasks {
		if err == nil {
			job, readings := runtest.Job()
			err = storeRun(t.Context(), spools, r, n+1, job, readings[len(readings)-4:], func(run *rt.Run) {
				run.User, run.Meta.JobName, run.ArrayJobID, run.ArrayTaskID = "alice", "sweep", rt.Some[uint64](900), rt.Some(uint64(n))
			})
		}
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	base := servePages(t, dir)
	for path, has := range map[string][]string{
		"/job": {"Array 900_[0-65] sweep", "66 finished", "Advice", "report.json?cluster=c", "too many runs for plots"}, "/report.html": {"Array 900_[0-65] sweep"},
		"/report.json": {`"job": "900_65"`},
	} {
		status, _, body := getPage(t, base+path+"?cluster=c&id=900", "page-alice")
		if status != 200 {
			t.Errorf("GET %s: %d %.300s", path, status, body)
		}
		for _, text := range has {
			if !strings.Contains(body, text) {
				t.Errorf("GET %s lacks %q: %.3000s", path, text, body)
			}
		}
		if path == "/job" && strings.Contains(body, `id="data"`) {
			t.Error("the page has a script, and no plots")
		}
	}
}

// No page has a text of a user as markup.
func TestPagesEscape(t *testing.T) {
	base, offset := newPageSite(t), random.Below(t, 5)
	paths := []string{"/jobs", "/users?since=2026-03-01&until=2026-12-31", "/accounts?since=2026-03-01&until=2026-12-31", "/nodes"}
	for i, text := range payloads {
		if testing.Short() && i%5 != offset {
			continue
		}
		q := "?cluster=" + url.QueryEscape(text) + "&id=" + fmt.Sprint(100+i)
		paths = append(paths, "/job"+q, "/jobs?name="+url.QueryEscape(text), "/users?user="+url.QueryEscape(text), "/report.html"+q)
	}
	for _, path := range paths {
		status, _, body := getPage(t, base+path, "page-all")
		if status != 200 {
			t.Errorf("GET %s: %d %.300s", path, status, body)
		}
		for _, text := range payloads {
			isMarkup := strings.ContainsAny(text, "<>\"'") && html.EscapeString(text) != text
			if isMarkup && !strings.HasPrefix(text, "&") && strings.Contains(body, text) {
				t.Errorf("GET %s has %s as it is", path, text)
			}
		}
		if strings.Contains(body, `href="javascript:`) {
			t.Errorf("GET %s has a link that is a script", path)
		}
	}
}
