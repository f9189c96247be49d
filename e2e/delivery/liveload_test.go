//go:build e2e

package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/report"
	rtsite "github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

const (
	liveJobs   = 10 // of a node
	liveRounds = 5  // reports of a node; in reality one a minute
	liveAtOnce = 8  // nodes that report at the same time
	// liveBusy is the largest share of a minute in which a receiver works for the reports of 1,000 nodes.
	liveBusy = 0.10
)

// TestLiveLoad reports the jobs of RT_NODES simulated nodes to a receiver with SQLite and with PostgreSQL, several times,
// and then delivers all of them. The receiver has a row for each running job, and no object. At the end it has each
// job once.
func TestLiveLoad(t *testing.T) {
	nodes := envNumber(t, "RT_NODES", 50)
	s := newSite(t)
	t.Run("SQLite", func(t *testing.T) { liveLoad(t, s.another(t), nodes, "") })
	t.Run("PostgreSQL", func(t *testing.T) {
		postgres.Need(t)
		database, err := postgres.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := database.Close(); err != nil {
				t.Error(err)
			}
		})
		liveLoad(t, s.another(t), nodes, database.URL("postgres"))
	})
}

// TestLiveCost measures what the report of ten running jobs adds to a drain.
func TestLiveCost(t *testing.T) {
	const drains = 20
	s := newSite(t)
	r := serve(t, s)
	boot, err := host.BootID("/proc")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.path("spool"), 99, 1, newRandom(t)) // its registration announces the reports
	for job := range uint64(liveJobs) {
		run := rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some(job + 1), Node: "n1", BootID: boot, Start: began}, Ending: rt.Ending{State: rt.StateRunning}}
		w, err := spool.Create(s.path("spool"), run, rt.Host{}, spool.Options{CommitRows: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		for n := range int64(8700) { // of a day
			reading := rt.Snapshot{Wall: began.UnixNano() + n*1e10, Boot: 1 + n*1e10}
			reading.Job = rt.JobReading{Phase: rt.JobPresent, CPUUsage: rt.Some(uint64(n) * 7e6), MemPeak: rt.Some(uint64(n) << 20)}
			if err := w.Put(&reading); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	cost := func(live bool) (cpu time.Duration) {
		s.configure(t, "http://"+r.addr, `sacct = "off"`, `interval = "0s"`, fmt.Sprintf("live = %v", live))
		for range drains {
			cmd := s.rtSpool("drain", "--json")
			out, err := cmd.Output()
			if isSent := strings.Contains(string(out), `"live_report": "sent"`); err != nil || isSent != live {
				t.Fatalf("%v: %s", err, out)
			}
			cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		return cpu / drains
	}
	s.configure(t, "http://"+r.addr, `sacct = "off"`, "live = false")
	if out, err := s.rtSpool("drain").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	without, with := cost(false), cost(true)
	t.Logf("a drain with %d running jobs takes %v of CPU time, with their report %v", liveJobs, without, with)
	if with-without > time.Minute/200 { // half a percent of a core
		t.Errorf("a report each minute takes %v of CPU time", with-without)
	}
}

// liveNode is a simulated node with its jobs.
type liveNode struct {
	name   string
	runs   []rt.Run
	client *sentinel.Client
	store  upload.Putter
}

func newLiveNode(n int, url string) (*liveNode, error) {
	web, err := upload.NewHTTPClient(nil)
	if err != nil {
		return nil, err
	}
	node := &liveNode{name: fmt.Sprintf("n%d", n)}
	node.client, err = sentinel.New(sentinel.Config{HTTP: web, Endpoint: url, Token: token, Dialect: upload.DialectSpec})
	if err != nil {
		return nil, err
	}
	node.store, err = s3.New(s3.Config{HTTP: web, Endpoint: url})
	for k := range liveJobs {
		job := uint64(n*liveJobs + k + 1)
		node.runs = append(node.runs, rt.Run{
			Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Node: node.name, BootID: "boot", Start: began.Add(time.Duration(job) * time.Second)},
			Allocation: rt.Allocation{User: fmt.Sprintf("user%d", job%50), Account: "lab", Partition: "batch", AllocCPUs: rt.Some[uint64](4)},
			Meta:       rt.Metadata{JobName: "md"}, Ending: rt.Ending{State: rt.StateRunning},
		})
	}
	return node, err
}

// report sends the figures of all jobs of the node after so many minutes.
func (n *liveNode) report(ctx context.Context, minutes int) (wanted []string, err error) {
	l := rtsite.LiveReport{Cluster: "c", Node: n.name, Runs: []rtsite.LiveRun{}}
	for i := range n.runs {
		f := (&report.Summary{Run: n.runs[i], Label: n.runs[i].Label()}).Figures()
		secs := float64(60 * minutes)
		f.ElapsedSecs.Set(secs)
		f.CPU.CoresOf, f.CPU.Cores, f.CPU.AllocatedSecs, f.CPU.UsedSecs = "allocation", rt.Some[uint64](4), rt.Some(4*secs), rt.Some(3*secs)
		f.Memory.LimitOf, f.Memory.LimitBytes, f.Memory.PeakBytes = "cgroup", rt.Some[uint64](8<<30), rt.Some[uint64](2<<30)
		f.Record.Last = n.runs[i].Start.Add(time.Duration(minutes) * time.Minute)
		l.Runs = append(l.Runs, *f)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	wanted, _, err = n.client.PutLive(ctx, text)
	return wanted, err
}

// deliver delivers the end of all jobs, and then reports that none is left.
func (n *liveNode) deliver(ctx context.Context, dir string) error {
	for _, run := range n.runs {
		run.State = rt.StateRunning
		w, err := spool.Create(dir, run, rt.Host{HostName: n.name}, spool.Options{})
		if err != nil {
			return err
		}
		s := rt.Snapshot{Wall: run.Start.UnixNano(), Boot: 1}
		run.State, run.Outcome, run.End = rt.StateEnded, rt.OutcomeFinished, run.Start.Add(time.Hour)
		if err := errors.Join(w.Put(&s), w.End(run)); err != nil {
			return err
		}
		if err := n.deliverRun(ctx, w.Path()); err != nil {
			return err
		}
	}
	n.runs = nil
	_, err := n.report(ctx, 0)
	return err
}

func (n *liveNode) deliverRun(ctx context.Context, path string) (err error) {
	r, err := spool.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(), os.Remove(path)) }()
	var record strings.Builder
	if err := archive.Write(ctx, &record, r, nil); err != nil {
		return err
	}
	run := r.Run()
	got, err := n.client.Register(ctx, run, r.Host())
	if err != nil {
		return err
	}
	err = n.store.Put(ctx, got.UploadURIPrefix+"/"+got.RemoteID+"/"+upload.RecordName, got.Credentials, []byte(record.String()))
	if err != nil {
		return err
	}
	return n.client.Finish(ctx, upload.Finish{
		Dialect: got.Dialect, RemoteID: got.RemoteID, Status: upload.StatusFinished, FinishedAt: run.End, CSV: []byte("a\n"),
		Summary: []byte(`{"elapsed_secs":3600,"cpu":{"used_secs":100,"allocated_secs":14400,"cores_of":"allocation"}}`),
	})
}

// liveLoad is TestLiveLoad for one database; empty: SQLite.
func liveLoad(t *testing.T, s *site, count int, database string) {
	const reader = "the-token-of-a-reader"
	keys := []string{"[serve]", `token_rate = "0B"`, fmt.Sprintf("read_token_file = %q", s.path("readers"))}
	if database != "" {
		keys = append(keys, fmt.Sprintf("database = %q", database))
	}
	if err := os.WriteFile(s.path("readers"), []byte(reader+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.configure(t, "", keys...)
	r := serve(t, s)
	var all []*liveNode
	for n := range count {
		node, err := newLiveNode(n, "http://"+r.addr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, node)
	}
	each := func(do func(n *liveNode) error) {
		t.Helper()
		work := make(chan *liveNode)
		var workers sync.WaitGroup
		for range liveAtOnce {
			workers.Go(func() {
				for n := range work {
					if err := do(n); err != nil {
						t.Errorf("%s: %v", n.name, err)
					}
				}
			})
		}
		for _, n := range all {
			work <- n
		}
		close(work)
		workers.Wait()
	}
	var busy []float64
	for round := range liveRounds {
		before := cpuOf(t, r.cmd.Process.Pid)
		each(func(n *liveNode) error { _, err := n.report(t.Context(), round+1); return err })
		busy = append(busy, (cpuOf(t, r.cmd.Process.Pid)-before).Seconds()/60)
	}
	var latency []time.Duration
	for _, path := range []string{"/jobs", "/jobs?state=running", "/v1/jobs?limit=50&user=user7", "/v1/jobs?limit=1000"} {
		begin := time.Now()
		r.getAs(t, reader, path)
		latency = append(latency, time.Since(begin).Round(time.Millisecond))
	}
	checkLive(t, r, reader, count*liveJobs, count*liveJobs)
	if stored := filesBelow(t, s.path("received/objects")); stored > 0 {
		t.Errorf("%d objects for running jobs", stored)
	}
	r.getAs(t, reader, "/v1/jobs?job_id=1")
	wanted, err := all[0].report(t.Context(), liveRounds)
	if err != nil || len(wanted) != 1 || wanted[0] != all[0].runs[0].FileStem() {
		t.Errorf("after a look at job 1: %v, %v", wanted, err)
	}
	each(func(n *liveNode) error { return n.deliver(t.Context(), s.path("spool")) })
	checkLive(t, r, reader, count*liveJobs, 0)
	limit := liveBusy * max(1, float64(count)/1000)
	if share := slices.Max(busy[1:]); share > limit {
		t.Errorf("the receiver is busy for %.1f %% of the time with %d nodes, the limit is %.1f %%", 100*share, count, 100*limit)
	}
	t.Logf("%d nodes with %d jobs: busy %.2f of a minute at first, then %.4f; lists in %v", count, liveJobs, busy[0], busy[1:], latency)
	if database == "" {
		database = s.path("received/registry.db")
	}
	checkRows(t, database)
}

// checkLive checks how many jobs the lists have, each once, and how many of them run.
func checkLive(t *testing.T, r *receiver, reader string, jobs, running int) {
	t.Helper()
	seen, live := map[uint64]int{}, 0
	for path := "/v1/jobs?limit=1000"; path != ""; {
		var page struct {
			Next string `json:"next"`
			Jobs []struct {
				JobID uint64            `json:"job_id"`
				State string            `json:"state"`
				Live  []json.RawMessage `json:"live"`
				Runs  []json.RawMessage `json:"runs"`
			} `json:"jobs"`
		}
		if err := json.Unmarshal(r.getAs(t, reader, path), &page); err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			seen[j.JobID]++
			live += len(j.Live)
			isRight := j.State == "running" && len(j.Live) == 1 && len(j.Runs) == 0 || j.State == "ended" && len(j.Live) == 0 && len(j.Runs) == 1
			if !isRight {
				t.Errorf("job %d: %+v", j.JobID, j)
			}
		}
		path = ""
		if page.Next != "" {
			path = "/v1/jobs?limit=1000&cursor=" + page.Next
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("job %d is listed %d times", id, n)
		}
	}
	if len(seen) != jobs || live != running {
		t.Errorf("%d jobs, %d of them with current figures, want %d and %d", len(seen), live, jobs, running)
	}
}

// checkRows checks that the rows of a registry agree with each other.
func checkRows(t *testing.T, database string) {
	t.Helper()
	r, err := registry.Open(t.Context(), database, registry.Config{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := r.Check(t.Context())
	if err := errors.Join(err, r.Close()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func filesBelow(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") && d.Name() != "registry.sha256" { // the claim
			n++
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return n
}

// cpuOf returns the processor time of a process.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var user, system int64
	if _, err := fmt.Sscanf(rest, "%s %d %d %d %d %d %d %d %d %d %d %d %d", new(string), new(int), new(int), new(int), new(int), new(int), new(int), new(int), new(int), new(int), new(int), &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / rt.TicksPerSecond
}
