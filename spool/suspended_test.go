package spool

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// A list has the suspended time that the readings show, or that accounting has.
func TestListHasTheSuspendedTime(t *testing.T) {
	dir := t.TempDir()
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Start: time.Unix(1000, 0)}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := Create(dir, run, rt.Host{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, secs rt.Opt[float64]) {
		t.Helper()
		list, err := List(dir)
		if err != nil || len(list) != 1 || list[0].Err != nil || list[0].SuspendedSecs != secs {
			t.Errorf("%s: %+v, %v, want %v", what, list, err, secs)
		}
	}
	for i, total := range []rt.Opt[uint64]{{}, rt.Some[uint64](0), rt.Some[uint64](10e6), {}, rt.Some[uint64](25e6), rt.Some[uint64](25e6)} {
		s := rt.Snapshot{Seq: int64(i + 1), Boot: int64(i+1) * 1e10, Wall: int64(i+1) * 1e10}
		s.Job = rt.JobReading{Phase: rt.JobPresent, Suspended: total}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	run.End = run.Start.Add(time.Minute)
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	want("the readings", rt.Some(25.0))
	r, err := Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddEvent(rt.Event{Kind: "job", Name: "sacct", Status: "ok", Detail: "state=COMPLETED elapsed_secs=33 suspended_secs=27 cpu_secs=1"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want("accounting", rt.Some(27.0))
}
