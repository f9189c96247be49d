package tracker

import (
	"testing"

	"github.com/resource-tracker/rt"
)

func TestOOMKills(t *testing.T) {
	reading := func(job, step uint64) *rt.Snapshot {
		return &rt.Snapshot{
			Job: rt.JobReading{EventsOOMKill: rt.Some(job)},
			Steps: []rt.StepReading{
				{Step: "batch", EventsOOMKill: rt.Some[uint64](9)},
				{Step: "0", EventsOOMKill: rt.Some(step)},
				{Step: "0", Task: rt.Some[uint64](0), EventsOOMKill: rt.Some[uint64](7)},
			},
		}
	}
	for _, tt := range []struct {
		step string
		want uint64
	}{{"0", 1}, {"batch", 2}, {"", 2}, {"1", 0}} {
		k := OOMKills{Step: tt.step}
		// A process of the step was killed before the first reading.
		for _, s := range []*rt.Snapshot{reading(3, 1), {}, reading(5, 1)} {
			if err := k.Put(s); err != nil {
				t.Fatal(err)
			}
		}
		if got := k.Count(); got != tt.want {
			t.Errorf("step %q: %d kills, want %d", tt.step, got, tt.want)
		}
	}
}
