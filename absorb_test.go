package rt

import (
	"slices"
	"testing"
)

// A snapshot that stands for a dropped one keeps all that only the dropped one had.
func TestAbsorbLosesNothing(t *testing.T) {
	some := Some[uint64]
	dropped, s := job(1, JobPresent, 1e6, 1e6, 0), job(2, JobPresent, 2e6, 2e6, 0)
	for i, f := range JobFigures {
		if f.Kind == Counter {
			f.Field(&dropped.Job).Set(uint64(100 + i))
		}
	}
	s.Job = JobReading{Phase: JobPresent, MemIntervalPeak: some(5)}
	dropped.Job.MemIntervalPeak = some(9)
	dropped.Job.Threads = some(3)
	ended := StepReading{Step: "0", Task: some(1), Ended: true, CPUUsage: some(7)}
	dropped.Steps = []StepReading{{Step: "0"}, ended}
	s.Steps = []StepReading{{Step: "0", CPUUsage: some(8)}}
	dropped.Energy = []EnergyReading{
		{Source: "powercap", Domain: "package-0", Energy: some(50)},
		{Source: "powercap", Domain: "dram", Energy: some(60), Power: Some(1.5)}, {Source: "hwmon", Domain: "in", Power: Some(2.5)},
	}
	s.Energy = []EnergyReading{{Source: "powercap", Domain: "package-0"}}
	dropped.Perf = []PerfReading{{Event: "cycles", Value: some(1)}, {Event: "cycles", CPU: 1, Value: some(2)}, {Event: "stalls", Value: some(3)}}
	s.Perf = []PerfReading{{Event: "cycles", Value: some(4)}, {Event: "cycles", CPU: 1}}

	s.Absorb(dropped)
	for i, f := range JobFigures {
		if v := *f.Field(&s.Job); f.Kind == Counter && v != some(uint64(100+i)) {
			t.Errorf("%s of the job: %v", f.Name, v)
		}
	}
	if s.Job.MemIntervalPeak != some(9) {
		t.Errorf("the peak of both intervals: %v", s.Job.MemIntervalPeak)
	}
	wantAbsent(t, "a gauge", s.Job.Threads)
	if !slices.Equal(s.Steps, []StepReading{{Step: "0", CPUUsage: some(8)}, ended}) {
		t.Errorf("steps: %+v", s.Steps)
	}
	if !slices.Equal(s.Energy, []EnergyReading{
		{Source: "powercap", Domain: "package-0", Energy: some(50)}, {Source: "powercap", Domain: "dram", Energy: some(60)},
	}) {
		t.Errorf("energy: %+v", s.Energy)
	}
	if !slices.Equal(s.Perf, []PerfReading{{Event: "cycles", Value: some(4)}, {Event: "cycles", CPU: 1, Value: some(2)}, {Event: "stalls", Value: some(3)}}) {
		t.Errorf("counters: %+v", s.Perf)
	}
	if len(dropped.Steps) != 2 || len(dropped.Energy) != 3 {
		t.Error("the dropped snapshot was changed")
	}
}
