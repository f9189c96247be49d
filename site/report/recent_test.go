package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// The recent jobs of a user are those that have ended and that the reader may see, the oldest first, with some tasks of
// each array. They have the figures that the advice needs.
func TestRecent(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { testRecent(t, filepath.Join(t.TempDir(), "registry.db")) })
	t.Run("PostgreSQL", func(t *testing.T) {
		postgres.Need(t)
		server, err := postgres.Start("fsync=off")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		testRecent(t, server.URL("postgres"))
	})
}

func testRecent(t *testing.T, database string) {
	r, err := registry.Open(t.Context(), database, registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	jobs := uint64(0)
	put := func(ago time.Duration, change func(*rt.Run), owner string) {
		t.Helper()
		jobs++
		run := rt.Run{
			Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(jobs), Node: "n1", Start: now.Add(-ago)},
			Allocation: rt.Allocation{User: "alice", WorkDir: "/home/alice"}, Meta: rt.Metadata{JobName: "relax"},
			Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: now.Add(-ago + time.Hour)},
		}
		change(&run)
		if err := storeFigures(t.Context(), r, fmt.Sprint("run", jobs), owner, run); err != nil {
			t.Fatal(err)
		}
	}
	same := func(*rt.Run) {}
	put(40*24*time.Hour, same, "node")
	put(10*24*time.Hour, same, "node")
	put(9*24*time.Hour, func(run *rt.Run) { run.User = "bob" }, "node")
	put(8*24*time.Hour, same, site.OwnerOfUser("mark"))
	put(7*24*time.Hour, func(run *rt.Run) { run.Step = "0" }, "node")
	put(6*24*time.Hour, func(run *rt.Run) { run.Ending = rt.Ending{State: rt.StateRunning} }, "node")
	for task := range uint64(40) {
		put(5*24*time.Hour-time.Duration(task)*time.Minute, func(run *rt.Run) {
			run.ArrayJobID, run.ArrayTaskID = rt.Some[uint64](7), rt.Some(task)
		}, "node")
	}
	put(time.Hour, same, "node")
	s := Jobs{Registry: r, Fault: func(err error) { t.Error(err) }}
	list, err := s.Recent(t.Context(), site.Reader{User: "alice"}, "alice", now)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2+tasksRecent {
		t.Fatalf("%d jobs", len(list))
	}
	first, last := list[0], list[len(list)-1]
	if first.Label != "2" || last.Label != fmt.Sprint(jobs) || list[1].Label != "7_10" || first.Runs[0].Run.WorkDir != "/home/alice" || first.Runs[0].Scope != report.ScopeJob {
		t.Errorf("from %s, %s to %s, %+v", first.Label, list[1].Label, last.Label, first.Runs[0])
	}
	for _, c := range []struct {
		reader site.Reader
		user   string
		want   int
	}{{site.Reader{User: "bob"}, "alice", 0}, {site.Reader{User: "bob"}, "bob", 1}, {site.Reader{Operator: true}, "alice", len(list)}, {site.Reader{User: "alice"}, "bob", 0}} {
		if list, err := s.Recent(t.Context(), c.reader, c.user, now); err != nil || len(list) != c.want {
			t.Errorf("%+v: %d jobs of %s, %v", c.reader, len(list), c.user, err)
		}
	}
}

// storeFigures stores a run with the figures that a node delivers.
func storeFigures(ctx context.Context, r *registry.Registry, id, owner string, run rt.Run) error {
	summary := report.Summary{Label: run.Label(), Run: run, Scope: report.ScopeJob}
	figures, err := json.Marshal(summary.Delivered())
	err = errors.Join(err, r.Runs.Create(ctx, site.StoredRun{ID: id, Owner: owner, Created: run.Start, Metadata: []byte("{}")}))
	if err == nil {
		_, err = r.Runs.PutObject(ctx, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: id}, []byte("r"), &run)
	}
	if err == nil {
		_, err = r.Runs.Finish(ctx, id, site.Finish{RunStatus: "finished", DataSource: "inline", Summary: figures}, nil, nil)
	}
	return err
}
