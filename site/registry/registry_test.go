package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
)

// engine is a kind of database.
type engine struct {
	name string
	dsn  func(t testing.TB) string
}

// each runs a test on SQLite and, if TestPostgreSQL runs, on PostgreSQL. again opens the same database once more.
func each(t *testing.T, o Config, test func(t *testing.T, r *Registry, again func() *Registry)) {
	engines := []engine{{"SQLite", func(t testing.TB) string { return filepath.Join(t.TempDir(), "a % dir?", "registry#1.db") }}}
	if postgres.Missing() == "" {
		engines = append(engines, engine{"PostgreSQL", newDatabase})
	}
	for _, database := range engines {
		t.Run(database.name, func(t *testing.T) {
			dsn := database.dsn(t)
			open := func() *Registry {
				r, err := Open(t.Context(), dsn, o)
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
			test(t, open(), open)
		})
	}
}

// start is the time of the first run of a test. It has microseconds.
var start = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// newRun creates the run with a number; its time of registration is that many hours after start.
func newRun(t *testing.T, r *Registry, n int) site.StoredRun {
	t.Helper()
	created := start.Add(time.Duration(n) * time.Hour)
	run := site.StoredRun{ID: fmt.Sprintf("%s-%026d", created.Format(idTime), n), Owner: "owner", Created: created, Metadata: []byte(`{"job_name":"x"}`)}
	if err := r.Runs.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return run
}

func csv(run site.StoredRun, name, sum string) site.Object {
	return site.Object{RunID: run.ID, Name: name, Class: site.ClassCSV, Bytes: 3, SHA256: sum, Rows: 1, Text: 30, Header: 20, Created: run.Created}
}

// put stores an object and returns the replaced name.
func put(t *testing.T, r *Registry, o site.Object, body []byte, record *rt.Run) string {
	t.Helper()
	replaced, err := r.Runs.PutObject(t.Context(), o, body, record)
	if err != nil {
		t.Fatal(err)
	}
	return replaced
}

// finish finishes a run, without inline data.
func finish(t *testing.T, r *Registry, id string, f site.Finish) error {
	t.Helper()
	done, err := r.Runs.Finish(t.Context(), id, f, nil, nil)
	same(t, "unused", done.Unused, "")
	return err
}

// is checks the error of a call.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// same checks that two values are equal.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Exporter(func(typ reflect.Type) bool { return strings.HasPrefix(typ.Name(), "Opt[") })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRunIsReadAsItWasStored(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		run := newRun(t, r, 1)
		other := site.StoredRun{ID: "20260302t000000-b", Owner: "", Created: start, Metadata: []byte("{\"job_name\":\"\xff\\u0000<\"}")}
		if err := r.Runs.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := r.Runs.Create(t.Context(), other); err == nil {
			t.Error("a second run with the same id was accepted")
		}
		record := &rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](7), Node: "n1", Start: start}}
		o := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 4, SHA256: "r1", Created: start}
		put(t, r, o, []byte("rec1"), record)
		f := site.Finish{ExitCode: new(int64), RunStatus: "finished", DataSource: "inline", CSVSHA256: "c1", RecordSum: "r1", Summary: []byte(`{"a":1}`)}
		inline := site.Object{Name: site.InlineName, Class: site.ClassInline, Bytes: 0, SHA256: "i1", Created: start}
		if _, err := r.Runs.Finish(t.Context(), run.ID, f, &inline, []byte{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Registry{r, again()} {
			got, err := r.Runs.Get(t.Context(), run.ID)
			is(t, "Run", err, nil)
			if since := time.Since(got.Finished); since < 0 || since > time.Hour {
				t.Errorf("finished %v", got.Finished)
			}
			got.Finished = time.Time{}
			want := run
			want.Finish, want.Record = &f, record
			same(t, "run", got, want)
			ids, err := r.Runs.IDs(t.Context(), run.ID, 10)
			is(t, "RunIDs", err, nil)
			same(t, "ids", ids, []string{other.ID})
			ids, err = r.Runs.IDs(t.Context(), "", 1)
			is(t, "RunIDs", err, nil)
			same(t, "the first id", ids, []string{run.ID})
			objects, err := r.Objects.OfRun(t.Context(), run.ID)
			is(t, "Objects", err, nil)
			inline.RunID = run.ID
			same(t, "objects", objects, []site.Object{inline, o})
			body, err := r.Objects.Body(t.Context(), run.ID, site.RecordName)
			is(t, "Body", err, nil)
			same(t, "body", string(body), "rec1")
			body, err = r.Objects.Body(t.Context(), run.ID, site.InlineName)
			is(t, "empty Body", err, nil)
			same(t, "empty body", string(body), "")
		}
	})
}

// The ids of all runs have those that are registered while the others are worked on.
func TestAllIDs(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		want := []string{newRun(t, r, 1).ID}
		var got []string
		for id, err := range r.Runs.AllIDs(t.Context()) {
			is(t, "AllIDs", err, nil)
			got = append(got, id)
			if len(got) == 1 {
				want = append(want, newRun(t, r, 2).ID)
			}
		}
		same(t, "ids", got, want)
	})
}

func TestNotFound(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := newRun(t, r, 1)
		o := csv(run, "1", "a")
		o.Stored = "elsewhere"
		put(t, r, o, nil, nil)
		_, err := r.Runs.Get(t.Context(), "no'; DROP TABLE run; --")
		is(t, "Run", err, site.ErrNotFound)
		_, err = r.Objects.Body(t.Context(), run.ID, "2")
		is(t, "Body", err, site.ErrNotFound)
		_, err = r.Objects.Body(t.Context(), run.ID, "1")
		is(t, "Body in the object store", err, site.ErrNotFound)
		_, err = r.Runs.PutObject(t.Context(), csv(site.StoredRun{ID: "none"}, "1", "a"), []byte("x"), nil)
		is(t, "PutObject", err, site.ErrNotFound)
		is(t, "FinishRun", finish(t, r, "none", site.Finish{}), site.ErrNotFound)
		objects, err := r.Objects.OfRun(t.Context(), "none")
		if len(objects) > 0 || err != nil {
			t.Error(objects, err)
		}
	})
}

func TestReplacedObject(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := newRun(t, r, 1)
		stored := func(name, at string) site.Object {
			o := csv(run, name, at)
			o.Stored = at
			return o
		}
		same(t, "new", put(t, r, stored("1", "at1"), nil, nil), "")
		same(t, "the same again", put(t, r, stored("1", "at1"), nil, nil), "")
		same(t, "replaced", put(t, r, stored("1", "at2"), nil, nil), "at1")
		same(t, "a second name of the same bytes", put(t, r, stored("2", "at2"), nil, nil), "")
		same(t, "one of two names", put(t, r, stored("1", "at3"), nil, nil), "")
		same(t, "the last name", put(t, r, csv(run, "2", "b"), []byte("xyz"), nil), "at2")
		same(t, "held by the registry", put(t, r, stored("2", "at4"), nil, nil), "")
		objects, err := r.Objects.OfRun(t.Context(), run.ID)
		is(t, "Objects", err, nil)
		same(t, "objects", objects, []site.Object{stored("1", "at3"), stored("2", "at4")})
	})
}

func TestFinish(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		ctx := t.Context()
		run := newRun(t, r, 1)
		f := site.Finish{RunStatus: "finished", DataSource: "s3", Keys: []string{"1", "2"}}
		put(t, r, csv(run, "1", "a"), []byte("xyz"), nil)
		err := finish(t, r, run.ID, f)
		is(t, "without an object", err, site.ErrMissing)
		if !strings.Contains(fmt.Sprint(err), ": 2") {
			t.Errorf("%v does not name the object", err)
		}
		put(t, r, csv(run, "2", "b"), []byte("xyz"), nil)
		f.RecordSum = "r1"
		is(t, "without the record", finish(t, r, run.ID, f), site.ErrMissing)
		record := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, SHA256: "r1"}
		put(t, r, record, []byte("1"), &rt.Run{})
		f.Keys[1] = site.RecordName
		is(t, "with the record as rows", finish(t, r, run.ID, f), site.ErrMissing)
		f.Keys[1] = "2"
		is(t, "finish", finish(t, r, run.ID, f), nil)
		before, err := r.Runs.Get(ctx, run.ID)
		is(t, "Run", err, nil)

		_, err = r.Runs.PutObject(ctx, csv(run, "1", "a"), []byte("xyz"), nil)
		is(t, "the same object after the finish", err, nil)
		late := csv(run, "1", "a")
		late.Stored = "late"
		same(t, "the same object in the object store after the finish", put(t, r, late, nil, nil), "late")
		_, err = r.Runs.PutObject(ctx, csv(run, "1", "c"), []byte("xyz"), nil)
		is(t, "another object after the finish", err, site.ErrFinished)
		_, err = r.Runs.PutObject(ctx, csv(run, "3", "d"), []byte("xyz"), nil)
		is(t, "a new object after the finish", err, site.ErrFinished)
		record.SHA256 = "r2"
		put(t, r, record, []byte("2"), &rt.Run{})

		f.RunStatus, f.RecordSum, f.Summary = "failed", "r2", []byte(`{}`)
		is(t, "corrected finish", finish(t, r, run.ID, f), nil)
		after, err := r.Runs.Get(ctx, run.ID)
		is(t, "Run", err, nil)
		same(t, "finish", after.Finish, &f)
		same(t, "time of the first finish", after.Finished, before.Finished)
		f.Keys = f.Keys[:1]
		is(t, "finish with other rows", finish(t, r, run.ID, f), site.ErrFinished)
		is(t, "inline finish", finish(t, r, run.ID, site.Finish{DataSource: "inline", CSVSHA256: "x"}), site.ErrFinished)
	})
}

// A delayed request does not replace the record by an older one.
func TestOlderRecord(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := newRun(t, r, 1)
		record := func(sum string, seconds int, state rt.State) error {
			o := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, SHA256: sum, Signed: start.Add(time.Duration(seconds) * time.Second)}
			_, err := r.Runs.PutObject(t.Context(), o, []byte(sum), &rt.Run{Ending: rt.Ending{State: state}})
			return err
		}
		for _, step := range []struct {
			sum     string
			seconds int
			state   rt.State
			want    error
			stored  string
		}{
			{"first", 10, rt.StateRunning, nil, "first"},
			{"late", 9, rt.StateRunning, site.ErrOlder, "first"},
			{"same second", 10, rt.StateRunning, nil, "same second"},
			{"end, by a clock that was set back", 5, rt.StateEnded, nil, "end, by a clock that was set back"},
			{"end", 20, rt.StateEnded, nil, "end"},
			{"before the end", 30, rt.StateRunning, site.ErrOlder, "end"},
			{"late end", 19, rt.StateEnded, site.ErrOlder, "end"},
			{"corrected end", 31, rt.StateEnded, nil, "corrected end"},
		} {
			is(t, step.sum, record(step.sum, step.seconds, step.state), step.want)
			body, err := r.Objects.Body(t.Context(), run.ID, site.RecordName)
			is(t, "Body", err, nil)
			same(t, step.sum, string(body), step.stored)
		}
		checkUsage(t, r)
	})
}

// Inline data that an earlier finish has stored are not needed twice.
func TestUnusedInlineData(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := newRun(t, r, 1)
		for i, step := range []struct{ at, unused string }{{"at1", ""}, {"at2", "at2"}, {"at1", ""}} {
			inline := site.Object{Name: site.InlineName, Class: site.ClassInline, SHA256: "i", Stored: step.at}
			done, err := r.Runs.Finish(t.Context(), run.ID, site.Finish{DataSource: "inline", CSVSHA256: "c"}, &inline, nil)
			is(t, "FinishRun", err, nil)
			same(t, "done", done, site.Finished{IsFirst: i == 0, Unused: step.unused})
		}
		head, err := r.Runs.Head(t.Context(), run.ID)
		is(t, "RunHead", err, nil)
		same(t, "head", head, site.StoredRun{ID: run.ID, Owner: "owner", Finish: &site.Finish{DataSource: "inline", CSVSHA256: "c"}})
		_, err = r.Runs.Head(t.Context(), "none")
		is(t, "RunHead", err, site.ErrNotFound)
	})
}

func TestTooManyObjects(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		run := newRun(t, r, 1)
		err := r.db.change(t.Context(), "fill", func(tx transaction) error {
			_, err := tx.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 32768)
				INSERT INTO object (run_id, name, class, bytes, sha256, csv_rows, csv_bytes, header_bytes, stored, created, body)
				SELECT $1, 'o' || i, 'csv', 0, '', 0, 0, 0, '', 0, '' FROM n`, run.ID)
			if err == nil {
				_, err = tx.ExecContext(t.Context(), "UPDATE run SET objects = 32768 WHERE id = $1", run.ID)
			}
			return err
		})
		is(t, "fill", err, nil)
		_, err = r.Runs.PutObject(t.Context(), csv(run, "one more", "a"), []byte("xyz"), nil)
		is(t, "one more", err, site.ErrTooMany)
		_, err = r.Runs.PutObject(t.Context(), csv(run, "o1", "a"), []byte("xyz"), nil)
		is(t, "in place of one", err, nil)
	})
}

// Receivers that start at the same time have the same secret.
func TestSecret(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		registries := []*Registry{r, again(), again()}
		secrets := make([][]byte, 12)
		var all sync.WaitGroup
		for i := range secrets {
			all.Go(func() {
				var err error
				secrets[i], err = registries[i%3].Settings.Secret(t.Context(), "key", 32)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, secret := range secrets {
			same(t, "secret", secret, secrets[0])
		}
		same(t, "length", len(secrets[0]), 32)
		other, err := r.Settings.Secret(t.Context(), "other", 32)
		if err != nil || string(other) == string(secrets[0]) {
			t.Errorf("another secret: %x, %v", other, err)
		}
		if _, err := r.Settings.Secret(t.Context(), "key", 16); err == nil {
			t.Error("a secret of another length was returned")
		}
	})
}

func TestChangesAtTheSameTime(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		registries := []*Registry{r, again()}
		run := newRun(t, r, 1)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				o := csv(run, fmt.Sprint(i%4), fmt.Sprint(i))
				o.Bytes = int64(i)
				if _, err := registries[i%2].Runs.PutObject(t.Context(), o, []byte("x"), nil); err != nil {
					t.Error(err)
				}
				record := &rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](7), Node: fmt.Sprint(i), Start: start}}
				node := site.StoredRun{ID: fmt.Sprintf("20260301t120001-%026d", i), Owner: "owner", Created: start}
				if err := registries[i%2].Runs.Create(t.Context(), node); err != nil {
					t.Error(err)
				}
				o = site.Object{RunID: node.ID, Name: site.RecordName, Class: site.ClassRecord}
				if _, err := registries[i%2].Runs.PutObject(t.Context(), o, []byte("x"), record); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		checkUsage(t, r)
		jobs, next, err := r.Jobs.List(t.Context(), site.Filter{}, "", 10)
		if len(jobs) != 1 || next != "" || err != nil {
			t.Fatalf("%d jobs, %q, %v", len(jobs), next, err)
		}
		same(t, "runs", len(jobRuns(t, r, jobs[0], nil)), 40)
	})
}

// checkUsage compares the counters of the quota with the rows.
func checkUsage(t *testing.T, r *Registry) {
	t.Helper()
	var want int64
	err := r.db.read.QueryRow(`SELECT (SELECT CAST(coalesce(sum(charged), 0) AS BIGINT) FROM run) +
		(SELECT CAST(coalesce(sum(bytes + 1024), 0) AS BIGINT) FROM object)`).Scan(&want)
	is(t, "sum", err, nil)
	var charged int64
	err = r.db.read.QueryRow(`SELECT CAST(coalesce(sum(1024 + length(metadata) + coalesce(length(finish), 0) + coalesce(length(record), 0)), 0) AS BIGINT) -
		CAST(coalesce(sum(charged), 0) AS BIGINT) FROM run`).Scan(&charged)
	is(t, "sum of the runs", err, nil)
	same(t, "difference between the size of the runs and their charge", charged, int64(0))
	own, total, err := r.Runs.Usage(t.Context(), "owner")
	is(t, "Usage", err, nil)
	var wrong int64
	err = r.db.read.QueryRow("SELECT count(*) FROM run r WHERE objects <> (SELECT count(*) FROM object o WHERE o.run_id = r.id)").Scan(&wrong)
	is(t, "numbers of objects", err, nil)
	same(t, "runs with a wrong number of objects", wrong, int64(0))
	same(t, "use of the owner", own, want)
	same(t, "use of all", total, want)
}

// A caller that has gone away changes nothing, and does no harm to the others.
func TestCancelledChange(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.Runs.Create(ctx, site.StoredRun{ID: "cancelled", Created: start})
		is(t, "CreateRun", err, context.Canceled)
		newRun(t, r, 1)
		_, err = r.Runs.Get(t.Context(), "cancelled")
		is(t, "Run", err, site.ErrNotFound)
	})
}

func TestErrorsHideThePassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://user:s3cret@127.0.0.1:1/db?connect_timeout=2",
		"postgres://user:s3cret@127.0.0.1:port/db",
		"postgres://user:s3cret@127.0.0.1:1/db?sslmode=wrong",
		"postgres://user:%s3cret%zz@127.0.0.1:1/db",
		"postgres://user:s3cret/x@127.0.0.1:1/db",
		"postgres://user:s3cret#x@127.0.0.1:1/db",
		"postgres://user:s3cret x@127.0.0.1:1/db",
		"postgres://127.0.0.1:port/db?password=s3cret",
		"postgres://127.0.0.1:1/db?password=s3cret&connect_timeout=s3cret",
	} {
		_, err := Open(t.Context(), dsn, Config{})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open: %v", err)
		}
	}
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	r, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	newRun(t, r, 1)
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, st.Mode().Perm(), os.FileMode(0o600))
	}
}

func TestClosedRegistry(t *testing.T) {
	r, err := Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { // each gets an answer
			id := fmt.Sprint(i)
			err := r.Runs.Create(t.Context(), site.StoredRun{ID: id, Created: start})
			if err != nil && !strings.Contains(err.Error(), "database is closed") {
				t.Error(err)
			}
		})
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := r.Runs.Create(t.Context(), site.StoredRun{ID: "late"}); err == nil {
		t.Error("a change after the end was accepted")
	}
}

// A change that panics fails by itself.
func TestPanicOfAChange(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		err := r.db.change(t.Context(), "panic", func(transaction) error { panic("a hole in the map") })
		if err == nil || !strings.Contains(err.Error(), "a hole in the map") {
			t.Errorf("panic: %v", err)
		}
		newRun(t, r, 1)
	})
}
