package rt

import (
	"errors"
	"iter"
	"reflect"
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

// reusing gives snapshots in one Snapshot, as a reader of the spool does, and then
// the error.
func reusing(list []*Snapshot, err error) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		var one Snapshot
		for _, s := range list {
			one.CopyFrom(s)
			if !yield(&one, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func TestIntervalsAddUpOverAGap(t *testing.T) {
	list := []*Snapshot{job(1, JobPresent, 1e6, 1e6, 0), job(2, JobPresent, 0, 0, 0), job(5, JobPresent, 9e6, 8e6, 1e6), job(6, JobPresent, 9e6, 9e6, 1e6)}
	list[1].Job = JobReading{Phase: JobPresent}
	for i, s := range list {
		s.Nets = []NetReading{{Name: "a", RxBytes: Some(uint64(100 * i))}}
	}
	broken := errors.New("damaged")
	var total, intervals uint64
	var got error
	for i, err := range Intervals(reusing(list, broken)) {
		if got = err; err != nil {
			continue
		}
		intervals++
		s := Derive(i.Prev, i.Cur, ScopeJob)
		total += s.Scalars.UserMillis.Or(0)
		wantF(t, "the rate of an interface", s.Network[0].RxBytesPerSec, 100/s.Scalars.Seconds)
	}
	if intervals != 3 || total != 8000 || !errors.Is(got, broken) {
		t.Errorf("%d intervals with %d ms, then %v", intervals, total, got)
	}
	for range Intervals(reusing(list, nil)) {
		break
	}
}

// Every list of a Snapshot is copied: one that is forgotten here is shared.
func TestCopyFromSharesNoList(t *testing.T) {
	var src, dst Snapshot
	v := reflect.ValueOf(&src).Elem()
	lists := 0
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice {
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			lists++
		}
	}
	dst.CopyFrom(&src)
	d := reflect.ValueOf(&dst).Elem()
	for i := range d.NumField() {
		if f := d.Field(i); f.Kind() == reflect.Slice && (f.Len() != 1 || f.Pointer() == v.Field(i).Pointer()) {
			t.Errorf("%s: %d entries, shared or lost", d.Type().Field(i).Name, f.Len())
		}
	}
	if lists != 12 {
		t.Errorf("%d lists", lists)
	}
	if n := testing.AllocsPerRun(100, func() { dst.CopyFrom(&src) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
