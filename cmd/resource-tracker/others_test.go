package main

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func TestOthers(t *testing.T) {
	task := func(step string, n, processes uint64, ended bool) rt.StepReading {
		return rt.StepReading{Step: step, Task: rt.Some(n), Pids: rt.Some(processes), Ended: ended}
	}
	whole := rt.StepReading{Step: "3", Pids: rt.Some[uint64](9)}
	unread := rt.StepReading{Step: "3", Task: rt.Some[uint64](8)}
	const tail = " of step 3 on this node had not ended when the tracked one did: what was used after that is not in the record"
	const nothing = " of step 3 on this node not in the record: no cgroup was found that tells of them"
	for _, tt := range []struct {
		name           string
		steps          []rt.StepReading
		here           rt.Opt[uint64]
		status, detail string // empty: nothing is told
	}{
		{name: "alone", steps: []rt.StepReading{whole, task("3", 0, 2, false)}, here: rt.Some[uint64](1)},
		{name: "the others have ended", here: rt.Some[uint64](3),
			steps: []rt.StepReading{whole, task("3", 0, 0, false), task("3", 1, 2, false), task("3", 2, 1, true)}},
		{name: "one", steps: []rt.StepReading{whole, task("3", 0, 2, false), task("3", 1, 1, false), unread, task("4", 0, 1, false)},
			status: "unseen", detail: "1 other task" + tail},
		{name: "two", steps: []rt.StepReading{task("3", 0, 2, false), task("3", 1, 1, false), task("3", 2, 40, false)},
			status: "unseen", detail: "2 other tasks" + tail},
		{name: "no cgroup", here: rt.Some[uint64](8), status: "absent", detail: "7 other tasks" + nothing},
		{name: "none of the tasks", steps: []rt.StepReading{whole, unread}, here: rt.Some[uint64](2), status: "absent", detail: "1 other task" + nothing},
		{name: "nobody knows"},
		{name: "no tasks", here: rt.Some[uint64](0)},
	} {
		o := others{step: "3"}
		before := rt.Snapshot{Steps: []rt.StepReading{task("3", 0, 1, false), task("3", 1, 1, false), task("3", 2, 1, false)}}
		last := rt.Snapshot{Wall: 1_700_000_000_500_000_000, Steps: tt.steps}
		for _, s := range []*rt.Snapshot{&before, &last} {
			if err := o.Put(s); err != nil {
				t.Fatal(err)
			}
		}
		e, ok := o.event(tt.here)
		switch {
		case ok != (tt.status != ""):
			t.Errorf("%s: told %v: %+v", tt.name, ok, e)
		case ok && (e.Kind != "job" || e.Name != "tasks" || e.Status != tt.status || e.Detail != tt.detail || !e.Time.Equal(time.UnixMilli(1_700_000_000_500))):
			t.Errorf("%s: %+v", tt.name, e)
		}
	}
}
