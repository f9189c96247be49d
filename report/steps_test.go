package report

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// A step of 1.03 s began 0.86 s before its first reading: its length is given as bounds.
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
