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
		is(t, "Claim", r.Lake.ClaimPartition(t.Context(), "p", list), nil)
		is(t, "Claim of another writer, which is late", r.Lake.ClaimPartition(t.Context(), "q", list), nil)
		is(t, "Written", r.Lake.MarkWritten(t.Context(), []site.Changed{older, list[1]}), nil)
		list, err = again().Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed after Written", err, nil)
		if len(list) != 1 || list[0].ID != first.ID || list[0].Partition != "p" {
			t.Errorf("a run that has changed since: %+v", list)
		}
		is(t, "RemoveRun", errors.Join(r.Removals.RemoveRun(t.Context(), first.ID), r.Removals.RemoveRun(t.Context(), bare.ID)), nil)
		gone, err := r.Lake.GoneRuns(t.Context(), "", 10)
		is(t, "Gone", err, nil)
		if len(gone) != 1 || gone[0].ID != first.ID || gone[0].Partition != "p" {
			t.Errorf("gone: %+v", gone)
		}
		is(t, "Removed", r.Lake.ForgetRun(t.Context(), first.ID), nil)
		gone, err = r.Lake.GoneRuns(t.Context(), "", 10)
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

// The lake is recorded before a run is put there, so that a removed run leaves the lake. A run that
// no lake can have leaves nothing to do.
func TestClaimedRuns(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		first, second := putRun(t, r, 0, job(7, 0)), putRun(t, r, 1, job(8, 1))
		is(t, "Claim", r.Lake.ClaimPartition(t.Context(), "p", []site.Changed{{ID: first.ID}, {ID: "none"}}), nil)
		list, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		if len(list) != 2 || list[0].Partition != "p" || list[0].Changes == 0 || list[1].Partition != "" {
			t.Errorf("%+v", list)
		}
		is(t, "RemoveRun", errors.Join(r.Removals.RemoveRun(t.Context(), first.ID), r.Removals.RemoveRun(t.Context(), second.ID)), nil)
		gone, err := r.Lake.GoneRuns(t.Context(), "", 10)
		is(t, "Gone", err, nil)
		if len(gone) != 1 || gone[0].ID != first.ID || gone[0].Partition != "p" {
			t.Errorf("gone: %+v", gone)
		}
	})
}

// When a registration leaves a partition, the other ones of the same run are written again.
func TestOtherRegistrationsAgain(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		first, twin := putRun(t, r, 0, job(7, 0)), putRun(t, r, 1, job(7, 0))
		later, moved := putRun(t, r, 2, job(8, 1)), putRun(t, r, 3, job(7, 0))
		all, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		same(t, "changed", len(all), 4)
		gone := all[0]
		for _, c := range all {
			partition := "p"
			if c.ID == moved.ID {
				partition = "q"
			}
			is(t, "Claim", r.Lake.ClaimPartition(t.Context(), partition, []site.Changed{c}), nil)
			is(t, "Written", r.Lake.MarkWritten(t.Context(), []site.Changed{c}), nil)
			if c.ID == first.ID {
				gone = c
			}
		}
		gone.Start = gone.Start.Add(time.Microsecond)
		is(t, "Again", r.Lake.MarkChanged(t.Context(), "p", []site.Changed{gone}), nil)
		list, err := r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		if len(list) != 1 || list[0].ID != twin.ID {
			t.Errorf("%+v, want the other registration of %s, not %s", list, first.ID, later.ID)
		}
		gone.ID = ""
		is(t, "Again", r.Lake.MarkChanged(t.Context(), "p", []site.Changed{gone}), nil)
		list, err = r.Lake.ChangedRuns(t.Context(), site.Changed{}, 10)
		is(t, "Changed", err, nil)
		if len(list) != 2 || list[0].ID != first.ID || list[1].ID != twin.ID {
			t.Errorf("%+v, want both registrations of %s, not %s", list, first.ID, later.ID)
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
		gone, err := r.Lake.GoneRuns(t.Context(), "", 10)
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
