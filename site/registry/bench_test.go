package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/page"
)

// benchJobs is the size of the registry in BenchmarkJobs.
const benchJobs = 1_000_000

// fill makes jobs of 2,000 users in 200 accounts with 250,000 different names, one a minute, the
// last ten of which are running. Each has a run.
const fill = `WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < %d)
	INSERT INTO job (cluster, job_id, family, username, account, partition, name, state, outcome, started, ended, updated, core_secs, core_used, waste)
	SELECT 'cluster', i, i - i %% 10, 'user' || ((i * 7919) %% 2000), 'account' || ((i * 7919) %% 200), CASE WHEN i %% 1000 = 0 THEN 'debug' ELSE 'batch' END,
		'step_' || (i %% 7) || '_of_case_' || ((i * 31) %% 250000), CASE WHEN i > %[1]d - 10 THEN 'running' ELSE 'ended' END,
		CASE WHEN i > %[1]d - 10 THEN '' WHEN i %% 5003 = 0 THEN 'oom' WHEN i %% 10 = 0 THEN 'failed' ELSE 'finished' END,
		60000000 * i, CASE WHEN i > %[1]d - 10 THEN NULL ELSE 60000000 * i + 1000000 * (i %% 86400) END, 0,
		3600.0 * (i %% 64), 36.0 * (i %% 64) * (i %% 100), CASE WHEN i > %[1]d - 10 THEN -1 ELSE (i * 7919) %% 100003 END FROM n`

const fillRuns = `INSERT INTO run (id, owner, created, charged, finished, cluster, job_id, generation, attempt, state, outcome, accounted, started, ended, node, stem, metadata, record)
	SELECT '20260301t120000-' || job_id, 'owner', started, 3000, started, cluster, job_id, generation, 0, state, outcome, 1, started, ended, 'n' || (job_id % 1000), 'job-' || job_id, $1, $2 FROM job`

// BenchmarkJobs reads pages of 100 jobs from a registry of a million. The budget is 100 ms.
func BenchmarkJobs(b *testing.B) {
	for _, database := range benchDatabases(b) {
		b.Run(database.name, func(b *testing.B) {
			r, err := Open(b.Context(), database.dsn, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			record, _ := encode(benchRecord(1, time.Now()))
			err = r.change(b.Context(), "fill", func(tx transaction) error {
				if _, err := tx.ExecContext(b.Context(), fmt.Sprintf(fill, benchJobs)); err != nil {
					return err
				}
				_, err := tx.ExecContext(b.Context(), fillRuns, []byte(`{"job_name":"case"}`), record)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			if database.name == "PostgreSQL" {
				_, err := r.db.Exec("VACUUM ANALYZE")
				if err != nil {
					b.Fatal(err)
				}
			}
			own := &site.Access{Users: []string{"user7"}}
			coordinator := &site.Access{Users: []string{"user7"}, Accounts: []string{"account7", "account8", "account9"}}
			at := func(minute int64) time.Time { return moment(60000000 * minute) }
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
				"jobs", "jobs?user=user7", "jobs?sort=waste", "jobs?sort=waste&user=user7", "jobs?sort=waste&partition=debug", "jobs?sort=waste&" + since,
				"jobs?outcome=oom", "jobs?node=n7", "jobs?name=case_12345", "jobs?name=absent", "users?" + since, "accounts?" + since,
			} {
				b.Run("page "+path, func(b *testing.B) { benchPage(b, r, path, site.Reader{Operator: true}) })
				b.Run("page "+path+" of a user", func(b *testing.B) { benchPage(b, r, path, site.Reader{User: "user7"}) })
			}
		})
	}
}

// benchQuery reads the first page with the runs of its jobs, and the following ones until it has 100 jobs or the end.
func benchQuery(b *testing.B, r *Registry, f site.Filter) {
	var pages []time.Duration
	calls, found := 0, 0
	for b.Loop() {
		next := ""
		for calls, found = 0, 0; calls == 0 || next != "" && found < 100; calls++ {
			start := time.Now()
			jobs, after, err := r.Jobs(b.Context(), f, next, 100)
			for _, job := range jobs {
				if _, _, err := r.JobRuns(b.Context(), job, f.Access, "", 32); err != nil {
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
func benchPage(b *testing.B, r *Registry, path string, reader site.Reader) {
	pages := page.New(page.Config{Registry: r, Fault: func(err error) { b.Error(err) }})
	var times []time.Duration
	for b.Loop() {
		w := httptest.NewRecorder()
		start := time.Now()
		pages.ServePage(w, httptest.NewRequest(http.MethodGet, "/"+path, nil), reader)
		times = append(times, time.Since(start))
		if w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)*95/100].Seconds()*1e3, "p95-ms")
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
			r, err := Open(b.Context(), database.dsn, Options{})
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
func storeRun(ctx context.Context, r *Registry, n int64) error {
	now := time.Now()
	id := fmt.Sprintf("%s-%026d", now.UTC().Format(idTime), n)
	run := site.Run{ID: id, Owner: "owner", Created: now, Metadata: []byte(`{"job_name":"case","external_run_id":"cluster:1@n1#0"}`)}
	if err := r.CreateRun(ctx, run); err != nil {
		return err
	}
	o := site.Object{RunID: id, Name: "000001.csv.gz", Class: site.ClassCSV, Bytes: 4 << 10, SHA256: id, Rows: 60}
	if _, err := r.PutObject(ctx, o, make([]byte, 4<<10), nil); err != nil {
		return err
	}
	o = site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 8 << 10, SHA256: id}
	if _, err := r.PutObject(ctx, o, make([]byte, 8<<10), benchRecord(n, now)); err != nil {
		return err
	}
	_, err := r.FinishRun(ctx, id, site.Finish{RunStatus: "finished", DataSource: "s3", Keys: []string{"000001.csv.gz"}, RecordSum: id}, nil, nil)
	return err
}
