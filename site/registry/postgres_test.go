package registry

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt/e2e/postgres"
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

// A run to which an object is added while its removal waits for the lock stays.
func TestExpireWaitsForAnAddition(t *testing.T) {
	r, err := Open(t.Context(), newDatabase(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := newRun(t, r, 1)
	locked, commit, added := make(chan bool), make(chan bool), make(chan error)
	go func() {
		added <- r.change(t.Context(), "add", func(tx transaction) error {
			row, err := r.lockRun(t.Context(), tx, run.ID)
			if err == nil {
				o := csv(run, "1", "a")
				o.Created = time.Now()
				_, err = r.putRow(t.Context(), tx, row, o, []byte("xyz"))
			}
			close(locked)
			<-commit
			return err
		})
	}()
	<-locked
	removed := make(chan int, 1)
	go func() {
		_, n, err := r.ExpireRuns(t.Context(), time.Now().Add(-time.Hour), 10)
		is(t, "ExpireRuns", err, nil)
		removed <- n
	}()
	for waiting := 0; waiting == 0 && len(removed) == 0; { // until the removal waits
		err := r.db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting)
		is(t, "pg_stat_activity", err, nil)
	}
	close(commit)
	is(t, "add", <-added, nil)
	same(t, "removed runs", <-removed, 0)
	_, err = r.Run(t.Context(), run.ID)
	is(t, "Run", err, nil)
}
