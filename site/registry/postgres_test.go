package registry

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
)

var (
	server    *postgres.Server // started by the first test that needs it
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimFile); path != "" {
		fmt.Fprintln(os.Stderr, victim(path))
		os.Exit(1)
	}
	code := m.Run()
	if server != nil {
		_ = server.Close() // a test removes what it can
	}
	os.Exit(code)
}

// newDatabase returns the URL of an empty database. Its server does not sync: these tests do not
// crash the machine.
func newDatabase(t testing.TB) string {
	t.Helper()
	if server == nil {
		var err error
		server, err = postgres.Start("fsync=off")
		if err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	if err := server.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

// PostgreSQL is a server that several processes use at the same time, and that can be away.
func TestPostgreSQL(t *testing.T) {
	postgres.Need(t)
	t.Run("expire waits for an addition", testExpireWaitsForAnAddition)
	t.Run("retention and deliveries do not deadlock", testRetentionAndDeliveriesDoNotDeadlock)
	t.Run("commit is refused", testCommitIsRefused)
	t.Run("database is away", testDatabaseIsAway)
	t.Run("full disk", func(t *testing.T) {
		dir := smallDisk(t, "24m")
		fullDisk(t, dir, newSmallDatabase(t, dir))
	})
}

// A run to which an object is added while its removal waits for the lock stays.
func testExpireWaitsForAnAddition(t *testing.T) {
	r, err := Open(t.Context(), newDatabase(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := newRun(t, r, 1)
	locked, commit, added := make(chan bool), make(chan bool), make(chan error)
	go func() {
		added <- r.db.change(t.Context(), "add", func(tx transaction) error {
			row, err := r.Runs.lockRun(t.Context(), tx, run.ID)
			if err == nil {
				o := csv(run, "1", "a")
				o.Created = time.Now()
				var put putResult
				put, err = r.Runs.putRow(t.Context(), tx, row, objectRow{}, o, []byte("xyz"))
				err = errors.Join(err, r.Runs.addObject(t.Context(), tx, row, put))
			}
			close(locked)
			<-commit
			return err
		})
	}()
	<-locked
	removed := make(chan int, 1)
	go func() {
		_, n, err := r.Removals.ExpireRuns(t.Context(), time.Now().Add(-time.Hour), 10)
		is(t, "ExpireRuns", err, nil)
		removed <- n
	}()
	for waiting := 0; waiting == 0 && len(removed) == 0; { // until the removal waits
		err := r.db.read.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting)
		is(t, "pg_stat_activity", err, nil)
	}
	close(commit)
	is(t, "add", <-added, nil)
	same(t, "removed runs", <-removed, 0)
	_, err = r.Runs.Get(t.Context(), run.ID)
	is(t, "Run", err, nil)
}

// Retention and deliveries of the same jobs do not wait for each other: PostgreSQL would end one of them after
// a second.
func testRetentionAndDeliveriesDoNotDeadlock(t *testing.T) {
	r, err := Open(t.Context(), newDatabase(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const jobs = 4
	for n := range 80 {
		putRun(t, r, n, job(uint64(n%jobs+1), 0))
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := range 40 {
				run := site.StoredRun{ID: fmt.Sprintf("20990301t130000-%025d%d", n, w), Owner: "owner", Created: time.Now()}
				record := job(uint64(n%jobs+1), 0)
				o := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: "r", Created: run.Created}
				err := r.Runs.Create(t.Context(), run)
				if err == nil {
					_, err = r.Runs.PutObject(t.Context(), o, []byte("r"), &record)
				}
				if err == nil {
					_, err = r.Runs.Finish(t.Context(), run.ID, site.Finish{DataSource: "inline"}, nil, nil)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	removed := 0
	for removed < 80 {
		_, n, err := r.Removals.ExpireRuns(t.Context(), time.Now().Add(-time.Hour), 10)
		if err != nil || n == 0 {
			t.Fatalf("%d runs are removed, %v", removed, err)
		}
		removed += n
	}
	writers.Wait()
	checkUsage(t, r)
	var deadlocks int
	err = r.db.read.QueryRow("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks)
	is(t, "pg_stat_database", err, nil)
	same(t, "deadlocks", deadlocks, 0)
}

// If the server refuses COMMIT itself, nothing was changed for certain, and the connection can be used again.
func testCommitIsRefused(t *testing.T) {
	r, err := Open(t.Context(), newDatabase(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	change := func(query string) error {
		return r.db.change(t.Context(), "try", func(tx transaction) error {
			_, err := tx.ExecContext(t.Context(), query)
			return err
		})
	}
	is(t, "make a table", change("CREATE TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"), nil)
	if err := change("INSERT INTO once VALUES (1), (1)"); err == nil || errors.Is(err, site.ErrUnclear) {
		t.Errorf("a constraint that COMMIT checks: %v", err)
	}
	is(t, "the next change", change("INSERT INTO once VALUES (1)"), nil)
}

// Without its database each method returns site.ErrAway.
func testDatabaseIsAway(t *testing.T) {
	own, err := postgres.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), own.URL("postgres"), Config{})
	if err != nil {
		t.Fatal(errors.Join(err, own.Close()))
	}
	defer r.Close()
	run := newRun(t, r, 1)
	is(t, "stop the server", own.Close(), nil)
	for range 2 { // over connections that are lost, and new ones
		_, err = r.Runs.Get(t.Context(), run.ID)
		is(t, "Run", err, site.ErrAway)
		_, _, err = r.Jobs.List(t.Context(), site.Filter{}, "", 10)
		is(t, "Jobs", err, site.ErrAway)
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), run.ID), site.ErrAway)
	}
}
