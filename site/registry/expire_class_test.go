package registry

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

// Expire removes old objects of one class of finished runs. The run, its record row and its job stay.
func TestExpireClass(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		var runs []site.StoredRun
		for i := range 4 {
			run := putRun(t, r, i, job(uint64(i), i))
			for _, name := range []string{"1", "2"} {
				o := csv(run, name, name)
				if name == "2" {
					o.Stored = run.ID + "/2"
				}
				put(t, r, o, []byte("x"), nil)
			}
			runs = append(runs, run)
		}
		f := site.Finish{DataSource: "s3", Keys: []string{"1", "2"}}
		for _, run := range runs[1:] { // run 0 may still be delivered
			_, err := r.Runs.Finish(t.Context(), run.ID, f, nil, nil)
			is(t, "finish", err, nil)
		}
		later := time.Now().Add(time.Hour)
		record := job(3, 3)
		newer := csv(runs[3], site.RecordName, "newer")
		newer.Class, newer.Created = site.ClassRecord, later.Add(time.Hour)
		put(t, r, newer, []byte("newer"), &record)
		expire := func(class site.Class, before time.Time) (stored []string, removed int) {
			t.Helper()
			for {
				names, n, err := r.Removals.Expire(t.Context(), class, before, 1)
				is(t, "Expire", err, nil)
				if n == 0 {
					return stored, removed
				}
				stored, removed = append(stored, names...), removed+n
			}
		}
		_, n := expire(site.ClassCSV, start.Add(100*time.Hour)) // all finishes are later
		same(t, "removed before the finish is old", n, 0)
		stored, n := expire(site.ClassCSV, later)
		same(t, "removed rows", n, 6)
		same(t, "names in the object store", stored, []string{runs[1].ID + "/2", runs[2].ID + "/2", runs[3].ID + "/2"})
		_, n = expire(site.ClassRecord, later)
		same(t, "removed records", n, 2)
		checkUsage(t, r)
		for i, want := range [][]site.Class{nil, {site.ClassCSV, site.ClassRecord}, {site.ClassCSV, site.ClassRecord}, {site.ClassCSV}} {
			run, err := r.Runs.Get(t.Context(), runs[i].ID)
			is(t, "Run", err, nil)
			same(t, "expired classes", run.Expired, want)
			if run.Record == nil || run.Record.JobID.Or(99) != uint64(i) {
				t.Errorf("the registry has lost what the record says: %+v", run.Record)
			}
		}
		same(t, "jobs", pages(t, r, site.Filter{}, 10), []uint64{3, 2, 1, 0})
		objects, err := r.Objects.OfRun(t.Context(), runs[0].ID)
		is(t, "Objects", err, nil)
		same(t, "objects of the run that is not finished", len(objects), 3)

		// A finish that is repeated needs no rows. A record that comes again expires again.
		_, err = r.Runs.Finish(t.Context(), runs[1].ID, f, nil, nil)
		is(t, "repeated finish", err, nil)
		record = job(1, 1)
		again := csv(runs[1], site.RecordName, "again")
		again.Class = site.ClassRecord
		put(t, r, again, []byte("again"), &record)
		_, n = expire(site.ClassRecord, later)
		same(t, "removed records", n, 1)
		run, err := r.Runs.Get(t.Context(), runs[1].ID)
		is(t, "Run", err, nil)
		same(t, "expired classes", run.Expired, []site.Class{site.ClassCSV, site.ClassRecord})
		checkUsage(t, r)
	})
}
