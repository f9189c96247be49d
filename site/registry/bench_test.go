package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/page"
	"github.com/resource-tracker/rt/site/registry"
)

// benchJobs is the size of the registry in BenchmarkJobs.
const benchJobs = 1_000_000

// BenchmarkJobs reads pages of 100 jobs from a registry of a million. The budget is 100 ms.
func BenchmarkJobs(b *testing.B) {
	for _, database := range benchDatabases(b) {
		b.Run(database.name, func(b *testing.B) {
			r, err := registry.Open(b.Context(), database.dsn, registry.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			record, _ := json.Marshal(benchRecord(1, time.Now()))
			began := time.Now().Add(-benchJobs * time.Minute)
			err = r.Exec(b.Context(), fmt.Sprintf(registry.Fill, benchJobs, began.UnixMicro()))
			if err == nil {
				err = r.Exec(b.Context(), registry.FillRuns, []byte(`{"job_name":"case"}`), record)
			}
			if err == nil && database.name == "PostgreSQL" {
				err = vacuum(b.Context(), database.dsn)
			}
			if err != nil {
				b.Fatal(err)
			}
			own := &site.Access{Users: []string{"user7"}}
			coordinator := &site.Access{Users: []string{"user7"}, Accounts: []string{"account7", "account8", "account9"}}
			at := func(minute int64) time.Time { return began.Add(time.Duration(minute) * time.Minute) }
			for _, q := range []struct {
				name   string
				filter site.Filter
			}{
				{"list", site.Filter{}},
				{"user", site.Filter{Users: []string{"user7"}}},
				{"account", site.Filter{Accounts: []string{"account7"}}},
				{"users", site.Filter{Users: []string{"user7", "user8", "user9"}}},
				{"user, oom", site.Filter{Users: []string{"user7"}, Outcome: "oom"}},
				{"job", site.Filter{JobID: rt.Some[uint64](benchJobs / 2)}},
				{"array", site.Filter{JobID: rt.Some[uint64](benchJobs / 20 * 10)}},
				{"running", site.Filter{State: rt.StateRunning}},
				{"oom", site.Filter{Outcome: "oom"}},
				{"partition", site.Filter{Partitions: []string{"debug"}}},
				{"last day", site.Filter{Since: at(benchJobs - 1440)}},
				{"a day of last year", site.Filter{Since: at(benchJobs / 2), Until: at(benchJobs/2 + 1440)}},
				{"search, many", site.Filter{Name: "CASE"}},
				{"search, few", site.Filter{Name: "case_12345"}},
				{"search, none", site.Filter{Name: "absent"}},
				{"user, search", site.Filter{Users: []string{"user7"}, Name: "case_12"}},
				{"own", site.Filter{Access: own}},
				{"own, search, none", site.Filter{Access: own, Name: "absent"}},
				{"own, oom", site.Filter{Access: own, Outcome: "oom"}},
				{"own, job", site.Filter{Access: own, JobID: rt.Some[uint64](benchJobs / 2)}},
				{"coordinator", site.Filter{Access: coordinator}},
				{"coordinator, user", site.Filter{Access: coordinator, Users: []string{"user8"}}},
				{"coordinator, search, none", site.Filter{Access: coordinator, Name: "absent"}},
				{"node", site.Filter{Node: "n7"}},
				{"own, node", site.Filter{Access: own, Node: "n7"}},
				{"waste", site.Filter{Sort: site.ByWaste}},
				{"waste, user", site.Filter{Sort: site.ByWaste, Users: []string{"user7"}}},
				{"waste, partition", site.Filter{Sort: site.ByWaste, Partitions: []string{"debug"}}},
				{"waste, last month", site.Filter{Sort: site.ByWaste, Since: at(benchJobs - 43200)}},
				{"waste, search, none", site.Filter{Sort: site.ByWaste, Name: "absent"}},
				{"waste, node", site.Filter{Sort: site.ByWaste, Node: "n7"}},
				{"waste, own", site.Filter{Sort: site.ByWaste, Access: own}},
				{"waste, coordinator", site.Filter{Sort: site.ByWaste, Access: coordinator}},
			} {
				b.Run(q.name, func(b *testing.B) { benchQuery(b, r, q.filter) })
			}
			since := "since=" + at(benchJobs-43200).Format(time.DateOnly)
			for _, path := range []string{
				"", "jobs", "jobs?user=user7", "jobs?sort=waste", "jobs?sort=waste&user=user7", "jobs?sort=waste&partition=debug", "jobs?sort=waste&" + since,
				"jobs?outcome=oom", "jobs?node=n7", "jobs?name=case_12345", "jobs?name=absent", "jobs?sort=cpu", "jobs?sort=-name&partition=debug", "jobs?sort=elapsed&name=absent", "jobs.csv", "find?q=case_12345", "users?" + since, "accounts?" + since, "users", "accounts?sort=cpu", "nodes",
			} {
				b.Run("page "+path, func(b *testing.B) { benchPage(b, r, path, site.Reader{Operator: true}) })
				b.Run("page "+path+" of a user", func(b *testing.B) { benchPage(b, r, path, site.Reader{User: "user7"}) })
			}
		})
	}
}

// benchQuery reads the first page with the runs of its jobs, and the following ones until it has 100 jobs or the end.
func benchQuery(b *testing.B, r *registry.Registry, f site.Filter) {
	var pages []time.Duration
	calls, found := 0, 0
	for b.Loop() {
		next := ""
		for calls, found = 0, 0; calls == 0 || next != "" && found < 100; calls++ {
			start := time.Now()
			jobs, after, err := r.Jobs.List(b.Context(), f, next, 100)
			for _, job := range jobs {
				if _, _, err := r.Visible.OfJob(b.Context(), job, f.Access, "", 32); err != nil {
					b.Fatal(err)
				}
			}
			if err != nil {
				b.Fatal(err)
			}
			pages = append(pages, time.Since(start))
			next, found = after, found+len(jobs)
		}
	}
	slices.Sort(pages)
	b.ReportMetric(pages[len(pages)*95/100].Seconds()*1e3, "p95-ms")
	b.ReportMetric(float64(calls), "calls")
	b.ReportMetric(float64(found), "jobs")
}

// benchPage makes a page of rt-site. The budget is 300 ms.
func benchPage(b *testing.B, r *registry.Registry, path string, reader site.Reader) {
	pages := page.New(page.Config{Registry: r, Fault: func(err error) { b.Error(err) }})
	var times []time.Duration
	for b.Loop() {
		w := httptest.NewRecorder()
		start := time.Now()
		pages.ServePage(w, httptest.NewRequest(http.MethodGet, "/"+path, nil), reader)
		times = append(times, time.Since(start))
		if w.Code >= http.StatusBadRequest {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)*95/100].Seconds()*1e3, "p95-ms")
}

// vacuum is not possible in a transaction.
func vacuum(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE")
	return errors.Join(err, conn.Close(ctx))
}

type benchDatabase struct{ name, dsn string }

func benchDatabases(b *testing.B) []benchDatabase {
	s, err := postgres.Start("shared_buffers=256MB", "max_wal_size=4GB") // it syncs
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return []benchDatabase{{"SQLite", filepath.Join(b.TempDir(), "registry.db")}, {"PostgreSQL", s.URL("postgres")}}
}

// BenchmarkRuns stores complete runs with 64 writers: the run, an object, the record and the
// finish, each of them durable. The budget is 1,000 runs a second in SQLite and 500 in PostgreSQL.
func BenchmarkRuns(b *testing.B) {
	for _, database := range benchDatabases(b) {
		b.Run(database.name, func(b *testing.B) {
			r, err := registry.Open(b.Context(), database.dsn, registry.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			var next atomic.Int64
			var writers sync.WaitGroup
			for range 64 {
				writers.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if err := storeRun(b.Context(), r, int64(b.N)<<32+n); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

func benchRecord(job int64, start time.Time) *rt.Run {
	return &rt.Run{
		Identity: rt.Identity{Cluster: "cluster", JobID: rt.Some(uint64(job)), Node: "n1", BootID: "5f4a2f0e-8d3f-4a6e-9d5e-2b8f0d9c1a77", Start: start},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "user", UID: rt.Some[uint64](1000), GID: rt.Some[uint64](1000), Account: "account",
			Partition: "batch", NodeList: "n1", WorkDir: "/home/user/case"},
		Meta:   rt.Metadata{JobName: fmt.Sprintf("case_%d", job)},
		Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, OutcomeSource: "sacct", End: start.Add(time.Hour)},
	}
}

// storeRun stores a complete run.
func storeRun(ctx context.Context, r *registry.Registry, n int64) error {
	now := time.Now()
	id := fmt.Sprintf("%s-%026d", now.UTC().Format("20060102t150405"), n)
	run := site.StoredRun{ID: id, Owner: "owner", Created: now, Metadata: []byte(`{"job_name":"case","external_run_id":"cluster:1@n1#0"}`)}
	if err := r.Runs.Create(ctx, run); err != nil {
		return err
	}
	o := site.Object{RunID: id, Name: "000001.csv.gz", Class: site.ClassCSV, Bytes: 4 << 10, SHA256: id, Rows: 60}
	if _, err := r.Runs.PutObject(ctx, o, make([]byte, 4<<10), nil); err != nil {
		return err
	}
	o = site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 8 << 10, SHA256: id}
	if _, err := r.Runs.PutObject(ctx, o, make([]byte, 8<<10), benchRecord(n, now)); err != nil {
		return err
	}
	_, err := r.Runs.Finish(ctx, id, site.Finish{RunStatus: "finished", DataSource: "s3", Keys: []string{"000001.csv.gz"}, RecordSum: id}, nil, nil)
	return err
}
