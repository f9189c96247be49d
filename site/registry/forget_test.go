package registry

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

// A run is removed with all that is its own; others stay.
func TestRemoveRun(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		for i := range 2 {
			run := putRun(t, r, i, job(uint64(i), i))
			o := csv(run, "1", "1")
			o.Stored = run.ID + "/1"
			put(t, r, o, nil, nil)
		}
		ids, err := r.Runs.IDs(t.Context(), "", 10)
		is(t, "RunIDs", err, nil)
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), ids[0]), nil)
		is(t, "RemoveRun again", r.Removals.RemoveRun(t.Context(), ids[0]), nil)
		_, err = r.Runs.Get(t.Context(), ids[0])
		is(t, "removed run", err, site.ErrNotFound)
		same(t, "jobs", pages(t, r, site.Filter{}, 10), []uint64{1})
		checkUsage(t, r)
		names, err := r.Removals.LeftoverObjects(t.Context(), "", 10)
		is(t, "Leftover", err, nil)
		same(t, "leftover", names, []string{ids[0] + "/1"})
		is(t, "Deleted", r.Removals.ForgetObject(t.Context(), names[0]), nil)
		names, err = r.Removals.LeftoverObjects(t.Context(), "", 10)
		is(t, "Leftover", err, nil)
		same(t, "leftover", names, []string{})
		problems, err := r.Check(t.Context())
		is(t, "Check", err, nil)
		same(t, "problems", problems, []string{})
	})
}

// Rewrite replaces all texts of a run that has not changed since it was read.
func TestRewrite(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		record := job(1, 1)
		run := putRun(t, r, 1, record)
		_, err := r.Runs.Finish(t.Context(), run.ID, site.Finish{DataSource: "inline", RecordSum: "r"}, nil, nil)
		is(t, "finish", err, nil)
		old, err := r.Runs.Get(t.Context(), run.ID)
		is(t, "Run", err, nil)
		objects, err := r.Objects.OfRun(t.Context(), run.ID)
		is(t, "Objects", err, nil)
		hidden, finish := record, *old.Finish
		hidden.User, hidden.Meta.JobName, finish.RecordSum = "user-x", "job-x", "longer"
		w := site.Rewrite{
			Old: old, OldRecord: objects[0], Metadata: []byte(`{"job_name":"job-x"}`), Finish: &finish, Run: &hidden,
			Record: site.Object{Bytes: 6, SHA256: "longer"}, Body: []byte("longer"),
		}
		other := w
		other.OldRecord.SHA256 = "other"
		is(t, "another record", r.Removals.Rewrite(t.Context(), other), site.ErrChanged)
		other = w
		other.Old.Finish = nil
		is(t, "another finish", r.Removals.Rewrite(t.Context(), other), site.ErrChanged)
		is(t, "Rewrite", r.Removals.Rewrite(t.Context(), w), nil)
		checkUsage(t, r)
		now, err := r.Runs.Get(t.Context(), run.ID)
		is(t, "Run", err, nil)
		same(t, "metadata", string(now.Metadata), `{"job_name":"job-x"}`)
		same(t, "finish", now.Finish, &finish)
		same(t, "user", now.Record.User, "user-x")
		body, err := r.Objects.Body(t.Context(), run.ID, site.RecordName)
		is(t, "Body", err, nil)
		same(t, "record", string(body), "longer")
		for user, jobs := range map[string][]uint64{"alice": {}, "user-x": {1}} {
			same(t, "jobs of "+user, pages(t, r, site.Filter{Users: []string{user}, Name: "job-x"}, 10), jobs)
		}
		objects, err = r.Objects.OfRun(t.Context(), run.ID)
		is(t, "Objects", err, nil)
		w = site.Rewrite{Old: now, OldRecord: objects[0], Metadata: now.Metadata, Finish: now.Finish, Run: now.Record}
		is(t, "Rewrite without a record", r.Removals.Rewrite(t.Context(), w), nil)
		now, err = r.Runs.Get(t.Context(), run.ID)
		is(t, "Run", err, nil)
		same(t, "expired", now.Expired, []site.Class{site.ClassRecord})
		checkUsage(t, r)
		problems, err := r.Check(t.Context())
		is(t, "Check", err, nil)
		same(t, "problems", problems, []string{})
	})
}

// The row of a job has no name of a run that is removed or rewritten.
func TestForgottenRunsLeaveNoNamesInTheJob(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		jobs := func() string {
			t.Helper()
			list, err := collect(t.Context(), r.db.read, scanText, "SELECT owner || ',' || family || ',' || username || ',' || account || ',' || partition || ',' || name FROM job WHERE job_id = 9 ORDER BY generation")
			is(t, "job", err, nil)
			return strings.Join(list, " ")
		}
		var ids []string
		for n, step := range []struct {
			owner, user, account, partition, name string
			array                                 uint64
		}{
			{"a", "ann", "bio", "long", "fold", 7},
			{"b", "bob", "chem", "debug", "other", 9},
			{"a", "ann", "", "batch", "", 9},
		} {
			run := site.StoredRun{ID: fmt.Sprintf("20260301t130000-%026d", n), Owner: step.owner, Created: start}
			is(t, "CreateRun", r.Runs.Create(t.Context(), run), nil)
			record := job(9, n)
			record.User, record.Account, record.Partition, record.Meta.JobName = step.user, step.account, step.partition, step.name
			record.ArrayJobID.Set(step.array)
			put(t, r, site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, SHA256: "r", Created: start}, []byte("r"), &record)
			ids = append(ids, run.ID)
		}
		same(t, "jobs", jobs(), "a,7,ann,bio,batch,fold b,9,bob,chem,debug,other")
		rewrite := func(id string) {
			t.Helper()
			old, err := r.Runs.Get(t.Context(), id)
			is(t, "Run", err, nil)
			hidden := *old.Record
			hidden.User, hidden.Meta.JobName = "user-x", "job-x"
			w := site.Rewrite{Old: old, OldRecord: site.Object{SHA256: "r"}, Metadata: old.Metadata, Run: &hidden, Record: site.Object{Bytes: 1, SHA256: "x"}, Body: []byte("x")}
			is(t, "Rewrite", r.Removals.Rewrite(t.Context(), w), nil)
		}
		rewrite(ids[0])
		same(t, "the first run is rewritten", jobs(), "a,9,ann,,batch, b,9,bob,chem,debug,other a,7,user-x,bio,long,job-x")
		rewrite(ids[2])
		same(t, "both runs are rewritten", jobs(), "b,9,bob,chem,debug,other a,7,user-x,bio,batch,job-x")
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), ids[0]), nil)
		same(t, "the first run is removed", jobs(), "b,9,bob,chem,debug,other a,9,user-x,,batch,job-x")
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), ids[1]), nil)
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), ids[2]), nil)
		same(t, "no run is left", jobs(), "")
	})
}

func TestAudit(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		is(t, "Audit", r.Settings.Audit(t.Context(), "root", "begins"), nil)
		is(t, "Audit", r.Settings.Audit(t.Context(), "root\x00", "ends"), nil)
		lines, err := r.Settings.Audits(t.Context())
		is(t, "Audits", err, nil)
		for i, want := range []string{" root: begins", " root?: ends"} {
			if len(lines) != 2 || lines[i][len(lines[i])-len(want):] != want {
				t.Errorf("%q", lines)
			}
		}
	})
}

// After Wipe no file of the database has a name of a run that was removed or rewritten, while others have it open.
func TestWipedNamesAreInNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	open := func() *Registry {
		r, err := Open(t.Context(), path, Config{})
		is(t, "Open", err, nil)
		t.Cleanup(func() { is(t, "Close", r.Close(), nil) })
		return r
	}
	service, r := open(), open()
	var ids []string
	for n := range 50 {
		record := job(uint64(n+1), n)
		record.User, record.Account, record.Meta.JobName = "wiped-user", "wiped-account", "wiped-name"
		ids = append(ids, putRun(t, service, n, record).ID)
	}
	held, err := service.db.read.Conn(t.Context())
	is(t, "Conn", err, nil)
	defer held.Close()
	_, err = held.ExecContext(t.Context(), "BEGIN; SELECT count(*) FROM run")
	is(t, "a reader", err, nil)
	for _, id := range ids {
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), id), nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := r.Wipe(ctx); err == nil {
		t.Error("wiped while a reader has the names")
	}
	_, err = held.ExecContext(t.Context(), "COMMIT")
	is(t, "the reader ends", err, nil)
	is(t, "Wipe", r.Wipe(t.Context()), nil)
	for _, name := range []string{path, path + "-wal"} {
		content, err := os.ReadFile(name)
		is(t, "read "+name, err, nil)
		if bytes.Contains(content, []byte("wiped-")) {
			t.Errorf("%s has the names", name)
		}
	}
}
