package report

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// Slurm uses ids again: two jobs with one id are two jobs. Tasks of one array are one.
func TestJobsWithOneID(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC) }
	row := func(id uint64, generation int64, user string, from, to int) site.JobRow {
		j := site.JobRow{Cluster: "c", JobID: id, Generation: generation, User: user, State: rt.StateEnded, Start: day(from)}
		if to > 0 {
			j.End = day(to)
		}
		return j
	}
	// The newest first: an array with one row for each task, whose last task has the id of the array.
	rows := []site.JobRow{
		row(7, 3, "alice", 101, 0), row(8, 2, "alice", 100, 101), row(7, 2, "bob", 99, 100),
		row(7, 1, "alice", 20, 21), row(9, 1, "alice", 19, 20), row(8, 1, "alice", 5, 15),
	}
	for _, tt := range []struct {
		generation int64
		want       string
	}{{0, "7.3 8.2"}, {3, "7.3 8.2"}, {2, "7.2"}, {1, "7.1 9.1 8.1"}, {4, ""}} {
		got := ""
		for _, j := range oneJob(rows, &Found{Query: Query{Job: "7", Generation: tt.generation}, ID: 7}) {
			got += fmt.Sprintf(" %d.%d", j.JobID, j.Generation)
		}
		if strings.TrimSpace(got) != tt.want {
			t.Errorf("generation %d: %s, want %s", tt.generation, got, tt.want)
		}
	}
}

// A job is found by the names that Slurm has for it: by its id, as a task of an array and as a component of a
// heterogeneous job. A reader finds the own jobs only.
func TestFindByName(t *testing.T) {
	r, err := registry.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	none := rt.None[uint64]()
	for i, one := range []struct{ id, array, task, het, offset rt.Opt[uint64] }{
		{rt.Some[uint64](5), rt.Some[uint64](4), rt.Some[uint64](1), none, none}, {rt.Some[uint64](4), rt.Some[uint64](4), rt.Some[uint64](3), none, none},
		{rt.Some[uint64](12), none, none, rt.Some[uint64](12), rt.Some[uint64](0)}, {rt.Some[uint64](13), none, none, rt.Some[uint64](12), rt.Some[uint64](1)},
		{rt.Some[uint64](4), none, none, none, none}, // 100 days later: the id was used again
	} {
		record := rt.Run{
			Identity:   rt.Identity{Cluster: "c", JobID: one.id, ArrayJobID: one.array, ArrayTaskID: one.task, HetJobID: one.het, HetJobOffset: one.offset, Node: "n1", Start: start.AddDate(0, 0, i/4*100)},
			Allocation: rt.Allocation{User: "alice"}, Ending: rt.Ending{State: rt.StateEnded, End: start.AddDate(0, 0, i/4*100).Add(time.Hour)},
		}
		id := fmt.Sprint("run", i)
		err := r.Runs.Create(t.Context(), site.StoredRun{ID: id, Created: start})
		if err == nil {
			_, err = r.Runs.PutObject(t.Context(), site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: id}, []byte("r"), &record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	jobs := Jobs{Registry: r, Fault: func(err error) { t.Error(err) }}
	for _, c := range []struct {
		q      Query
		reader site.Reader
		want   string
	}{
		{Query{Job: "4"}, site.Reader{Operator: true}, "[4] run4"},
		{Query{Job: "4", Generation: 1}, site.Reader{User: "alice"}, "[5 4] run0 run1"},
		{Query{Job: "4_3"}, site.Reader{User: "alice"}, "[4] run1"},
		{Query{Job: "4_1", Cluster: rt.Some("c")}, site.Reader{User: "alice"}, "[5] run0"},
		{Query{Job: "12"}, site.Reader{User: "alice"}, "[13 12] run3 run2"},
		{Query{Job: "12+1"}, site.Reader{User: "alice"}, "[13] run3"},
		{Query{Job: "12+2"}, site.Reader{User: "alice"}, ""}, {Query{Job: "4_2"}, site.Reader{User: "alice"}, ""}, {Query{Job: "99"}, site.Reader{User: "alice"}, ""},
		{Query{Job: "4_3"}, site.Reader{User: "bob"}, ""}, {Query{Job: "4_3", Cluster: rt.Some("other")}, site.Reader{Operator: true}, ""},
		{Query{Job: "4_3", Generation: 9}, site.Reader{Operator: true}, ""}, {Query{Job: "x"}, site.Reader{Operator: true}, ""},
	} {
		f, err := jobs.Find(t.Context(), c.reader, c.q)
		got := ""
		if err == nil {
			var ids []uint64
			for _, j := range f.Jobs {
				ids = append(ids, j.JobID)
			}
			got = fmt.Sprint(ids)
			for _, run := range f.Runs {
				got += " " + run.ID
			}
		}
		isAbsent := errors.Is(err, site.ErrNotFound)
		if got != c.want || isAbsent != (c.want == "") {
			t.Errorf("%+v for %+v: %q, %v, want %q", c.q, c.reader, got, err, c.want)
		}
	}
}
