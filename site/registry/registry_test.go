package registry

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// each runs a test on SQLite and on PostgreSQL.
func each(t *testing.T, o Options, test func(t *testing.T, r *Registry)) {
	for _, database := range []struct {
		name string
		dsn  func(t testing.TB) string
	}{
		{"SQLite", func(t testing.TB) string { return filepath.Join(t.TempDir(), "site", "registry.db") }},
		{"PostgreSQL", newDatabase},
	} {
		t.Run(database.name, func(t *testing.T) {
			r, err := Open(t.Context(), database.dsn(t), o)
			if err != nil {
				t.Fatal(err)
			}
			test(t, r)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

var day = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func TestRunFromBeginToEnd(t *testing.T) {
	each(t, Options{}, func(t *testing.T, r *Registry) {
		ctx := t.Context()
		run := site.Run{ID: "20260301t120000-a", Owner: "o1", Created: day, Metadata: []byte("{\"job_name\":\"\xff\\u0000\"}")}
		if err := r.CreateRun(ctx, run); err != nil {
			t.Fatal(err)
		}
		o := site.Object{RunID: run.ID, Name: "000001.csv.gz", Class: site.ClassCSV, Bytes: 3, SHA256: "abc", Rows: 1, Text: 30, Header: 20, Created: day}
		if replaced, err := r.PutObject(ctx, o, []byte("xyz"), nil); replaced != "" || err != nil {
			t.Fatal(replaced, err)
		}
		rec := &rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](7), Cluster: "c"}}
		if _, err := r.PutObject(ctx, site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 3, SHA256: "def", Created: day}, []byte("rec"), rec); err != nil {
			t.Fatal(err)
		}
		f := site.Finish{RunStatus: "finished", DataSource: "s3", Keys: []string{"000001.csv.gz"}}
		if err := r.FinishRun(ctx, run.ID, f, nil, nil); err != nil {
			t.Fatal(err)
		}
		got, err := r.Run(ctx, run.ID)
		if err != nil || got.Finish == nil || got.Record == nil {
			t.Fatal(got, err)
		}
		if diff := cmp.Diff(string(run.Metadata), string(got.Metadata)); diff != "" {
			t.Error(diff)
		}
		if _, err := r.Run(ctx, "x"); !errors.Is(err, site.ErrNotFound) {
			t.Error(err)
		}
		b, err := r.Body(ctx, run.ID, o.Name)
		if string(b) != "xyz" || err != nil {
			t.Error(b, err)
		}
		k1, err := r.Secret(ctx, "k", 32)
		if len(k1) != 32 || err != nil {
			t.Error(err)
		}
		own, total, err := r.Usage(ctx, "o1")
		t.Log(own, total, err)
	})
}
