package report

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// A step of 1.03 s began 0.86 s before its first reading: its duration is given as bounds.
func TestElapsedOfStepsIsBounded(t *testing.T) {
	var list []rt.Snapshot
	for i, ms := range []int64{0, 860, 980, 1032} {
		s := rt.Snapshot{Seq: int64(i + 1), Boot: 1e12 + ms*1e6, Wall: 1e18 + ms*1e6}
		s.Job.Phase = rt.JobPresent
		if i > 0 {
			s.Steps = []rt.StepReading{{Step: "batch", CPUUsage: rt.Some[uint64](1_030_000), Ended: i == 3}}
		}
		list = append(list, s)
	}
	steps := summarized(t, example{run: slurmRun(), snapshots: list}).Steps
	if len(steps) != 1 || steps[0].ElapsedAtLeastSecs != rt.Some(0.12) || steps[0].ElapsedAtMostSecs != rt.Some(1.032) {
		t.Errorf("%+v", steps)
	}
	steps = summarized(t, example{run: slurmRun(), snapshots: list[1:]}).Steps
	if len(steps) != 1 || steps[0].ElapsedAtMostSecs.Valid() {
		t.Errorf("without a reading before the first: %+v", steps)
	}
}

// If steps are omitted to keep the budget, a step appears at its end or when steps are read again.
// It may have begun at any time since the last reading of steps.
func TestElapsedOfStepsThatWereLeftOut(t *testing.T) {
	var list []rt.Snapshot
	for i := range int64(8) {
		s := rt.Snapshot{Seq: i + 1, Boot: 1e12 + i*10e9, Wall: 1e18 + i*10e9}
		s.Job.Phase = rt.JobPresent
		list = append(list, s)
	}
	list[4].Steps = []rt.StepReading{{Step: "0", Ended: true}}
	list[5].Steps = []rt.StepReading{{Step: "1"}}
	list[7].Steps = []rt.StepReading{{Step: "1", Ended: true}, {Step: "2", Ended: true}}
	budget := func(status, detail string) rt.Event {
		return rt.Event{Kind: "tracker", Name: "budget", Status: status, Detail: detail}
	}
	others := budget("over", "0.9 % of a core in 60 s, more than 0.50 %: from snapshot 1 on without processes")
	over := budget("over", "0.9 % of a core in 60 s, more than 0.50 %: from snapshot 3 on without steps")
	ok := budget("ok", "0.1 % of a core in 60 s, of 0.50 %: from snapshot 6 on no longer without steps")
	late := budget("over", "0.9 % of a core in 60 s, more than 0.50 %: from snapshot 1 on without steps")
	none := rt.None[float64]()
	for name, tt := range map[string]struct {
		events []rt.Event
		want   [3]rt.Opt[float64]
	}{
		"nothing is left out":   {[]rt.Event{others}, [3]rt.Opt[float64]{rt.Some(10.0), rt.Some(30.0), rt.Some(10.0)}},
		"steps are left out":    {[]rt.Event{others, over, ok}, [3]rt.Opt[float64]{rt.Some(30.0), rt.Some(60.0), rt.Some(10.0)}},
		"from the beginning on": {[]rt.Event{late, ok}, [3]rt.Opt[float64]{none, none, rt.Some(10.0)}},
		"to the end":            {[]rt.Event{over}, [3]rt.Opt[float64]{rt.Some(30.0), rt.Some(60.0), rt.Some(60.0)}},
		"events are missing":    {[]rt.Event{over, ok, {Kind: "spool", Name: "tracker/budget", Status: "repeated"}}, [3]rt.Opt[float64]{}},
	} {
		steps := summarized(t, example{run: slurmRun(), snapshots: list, events: tt.events}).Steps
		if len(steps) != len(tt.want) {
			t.Fatalf("%s: %+v", name, steps)
		}
		for i, want := range tt.want {
			if got := steps[i].ElapsedAtMostSecs; got != want {
				t.Errorf("%s: step %d lasted at most %v s, want %v", name, i, got, want)
			}
		}
	}
}
