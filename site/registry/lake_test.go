package registry

import (
	"errors"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// The lake gets each run with a record until it has the last version of it, and each run that was removed.
func TestChangedRuns(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		bare := newRun(t, r, 9) // without a record
		first, second := putRun(t, r, 0, job(7, 0)), putRun(t, r, 1, job(8, 1))
		list, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		if len(list) != 2 || list[0].ID != first.ID || list[1].ID != second.ID || list[0].Name == "" || list[0].JobID.Or(0) != 7 {
			t.Fatalf("%+v", list)
		}
		rest, err := r.Lake.ChangedRuns(t.Context(), list[0], 10)
		is(t, "Changed after the first", err, nil)
		if len(rest) != 1 || rest[0].ID != second.ID {
			t.Errorf("%+v", rest)
		}
		older := list[0]
		older.Changes--
		is(t, "Begin", r.Lake.Begin(t.Context()), nil)
		is(t, "Written", r.Lake.MarkWritten(t.Context(), []site.Changed{older, list[1]}), nil)
		list, err = again().Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed after Written", err, nil)
		if len(list) != 1 || list[0].ID != first.ID {
			t.Errorf("a run that has changed since: %+v", list)
		}
		is(t, "RemoveRun", errors.Join(r.Removals.RemoveRun(t.Context(), first.ID), r.Removals.RemoveRun(t.Context(), bare.ID)), nil)
		gone, err := r.Lake.GoneRuns(t.Context(), site.Changed{}, 10)
		is(t, "Gone", err, nil)
		if len(gone) != 1 || gone[0].ID != first.ID || gone[0].Name != list[0].Name || gone[0].JobID.Or(0) != 7 || gone[0].Node != list[0].Node {
			t.Errorf("gone: %+v", gone)
		}
		is(t, "Removed", r.Lake.ForgetGone(t.Context(), gone), nil)
		gone, err = r.Lake.GoneRuns(t.Context(), site.Changed{}, 10)
		is(t, "Gone", err, nil)
		same(t, "gone", len(gone), 0)
		is(t, "Rebuild", r.Lake.Rebuild(t.Context()), nil)
		list, err = r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		same(t, "after a rebuild", len(list), 1)
	})
}

// A row that cannot be decoded does not hide the others.
func TestChangedWithADamagedRow(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		first, second := putRun(t, r, 0, job(7, 0)), putRun(t, r, 1, job(8, 1))
		err := r.db.change(t.Context(), "damage a row", func(tx transaction) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE run SET record = $1 WHERE id = $2", []byte(`"x"`), first.ID)
			return err
		})
		is(t, "damage", err, nil)
		list, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		if len(list) != 2 || list[0].ID != first.ID || !errors.Is(list[0].Damage, site.ErrDamaged) || list[1].ID != second.ID || list[1].Damage != nil {
			t.Errorf("%+v", list)
		}
	})
}

// A record with another name leaves the old name to the lake. Before the first pass no lake can have it.
func TestRunWithAnotherName(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		record := job(7, 0)
		run := putRun(t, r, 0, record)
		is(t, "record", putRecordAgain(t, r, run, job(8, 0)), nil)
		gone, err := r.Lake.GoneRuns(t.Context(), site.Changed{}, 10)
		is(t, "Gone", err, nil)
		same(t, "gone before the first pass", len(gone), 0)
		is(t, "Begin", r.Lake.Begin(t.Context()), nil)
		is(t, "same record", putRecordAgain(t, r, run, job(8, 0)), nil)
		is(t, "record", putRecordAgain(t, r, run, record), nil)
		gone, err = r.Lake.GoneRuns(t.Context(), site.Changed{}, 10)
		is(t, "Gone", err, nil)
		other := job(8, 0)
		if len(gone) != 1 || gone[0].ID != run.ID || gone[0].Name != other.FileStem() || !gone[0].Start.Equal(other.Start.Truncate(time.Microsecond)) {
			t.Errorf("gone: %+v", gone)
		}
		gone, err = r.Lake.GoneRuns(t.Context(), gone[0], 10)
		is(t, "Gone", err, nil)
		same(t, "gone after it", len(gone), 0)
	})
}

// putRecordAgain stores another record of a run.
func putRecordAgain(t *testing.T, r *Registry, run site.StoredRun, record rt.Run) error {
	t.Helper()
	o := site.Object{RunID: run.ID, Name: site.RecordName, Class: site.ClassRecord, Bytes: 1, SHA256: record.FileStem(), Created: run.Created}
	_, err := r.Runs.PutObject(t.Context(), o, []byte("r"), &record)
	return err
}

// All registrations of a run are found by its name, and no other run.
func TestRegistrations(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		first, twin := putRun(t, r, 0, job(7, 0)), putRun(t, r, 1, job(7, 0))
		putRun(t, r, 2, job(8, 0))
		all, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		list, err := r.Lake.Registrations(t.Context(), all[0])
		is(t, "Registrations", err, nil)
		if len(list) != 2 || list[0].ID != first.ID || list[1].ID != twin.ID {
			t.Errorf("%+v, want the registrations of %s", list, first.ID)
		}
		is(t, "RemoveRun", r.Removals.RemoveRun(t.Context(), first.ID), nil)
		list, err = r.Lake.Registrations(t.Context(), all[0])
		is(t, "Registrations", err, nil)
		if len(list) != 1 || list[0].ID != twin.ID {
			t.Errorf("%+v, want the other registration of %s", list, first.ID)
		}
	})
}

// The state of the lake: when it was written, and what it lacks.
func TestLakeState(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		putRun(t, r, 0, job(7, 0))
		state, err := r.Lake.State(t.Context())
		is(t, "LakeState", err, nil)
		same(t, "before the first pass", state, site.LakeState{Unwritten: 1})
		list, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		is(t, "Written", r.Lake.MarkWritten(t.Context(), list), nil)
		is(t, "LakeDone", r.Lake.Done(t.Context(), start), nil)
		state, err = again().Lake.State(t.Context())
		is(t, "LakeState", err, nil)
		same(t, "after a pass", state, site.LakeState{LastSuccess: rt.Some(start)})
	})
}

// What retention removes is not removed from the lake.
func TestExpiredRunsStayInTheLake(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		putRun(t, r, 0, job(7, 0))
		_, n, err := r.Removals.ExpireRuns(t.Context(), time.Now().Add(time.Hour), 10)
		is(t, "ExpireRuns", err, nil)
		same(t, "expired", n, 1)
		gone, err := r.Lake.GoneRuns(t.Context(), site.Changed{}, 10)
		is(t, "Gone", err, nil)
		same(t, "gone", len(gone), 0)
	})
}

// One process has the lock of the lake.
func TestLockLake(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		check, release, err := r.Lake.Lock(t.Context())
		is(t, "LockLake", err, nil)
		is(t, "check", check(t.Context()), nil)
		_, _, err = again().Lake.Lock(t.Context())
		is(t, "second LockLake", err, ErrLocked)
		is(t, "release", release(), nil)
		_, release, err = again().Lake.Lock(t.Context())
		is(t, "LockLake after the release", err, nil)
		is(t, "release", release(), nil)
	})
}
