package rt

import "testing"

// TestJobIOSums: the rows of a job's disk I/O add up to what the controller or the processes
// counted, no matter when the counters were first read.
func TestJobIOSums(t *testing.T) {
	no := None[uint64]
	yes := Some[uint64]
	type reading struct{ controller, processes Opt[uint64] }
	for name, tt := range map[string]struct {
		readings []reading
		want     Opt[uint64]
	}{
		"processes, first read late":        {[]reading{{no(), no()}, {no(), no()}, {no(), yes(237568)}}, yes(237568)},
		"processes, with a gap":             {[]reading{{no(), yes(10)}, {no(), no()}, {no(), yes(30)}}, yes(30)},
		"controller":                        {[]reading{{yes(5), yes(7)}, {yes(9), yes(11)}}, yes(9)},
		"controller, first read late":       {[]reading{{no(), no()}, {yes(9), no()}}, yes(9)},
		"controller, with a gap":            {[]reading{{yes(5), yes(5)}, {no(), yes(8)}, {yes(9), yes(9)}}, yes(9)},
		"controller that comes late":        {[]reading{{no(), yes(10)}, {yes(12), yes(12)}, {yes(20), yes(20)}}, yes(20)},
		"neither":                           {[]reading{{no(), no()}, {no(), no()}}, no()},
		"controller at zero, processes not": {[]reading{{yes(0), yes(4)}, {yes(0), yes(8)}}, yes(0)},
	} {
		t.Run(name, func(t *testing.T) {
			prev := &Snapshot{Job: JobReading{Phase: JobPending}}
			sum := None[uint64]()
			for i, r := range tt.readings {
				cur := &Snapshot{Boot: int64(i+1) * 1e9, Job: JobReading{Phase: JobPresent, IOReadBytes: r.controller, ProcReadBytes: r.processes}}
				if n, ok := DeriveScalars(prev, cur, ScopeJob).DiskReadBytes.Get(); ok {
					sum.Set(sum.Or(0) + n)
				}
				cur.InheritCounters(prev)
				prev = cur
			}
			if sum != tt.want {
				t.Errorf("the rows add up to %v, want %v", sum, tt.want)
			}
		})
	}
}

// TestPendingJobIOSums: what the processes of a pending job wrote is in the rows after the cgroup was found,
// whether or not there is a controller.
func TestPendingJobIOSums(t *testing.T) {
	no := None[uint64]
	yes := Some[uint64]
	type reading struct {
		phase                 JobPhase
		controller, processes Opt[uint64]
	}
	for name, tt := range map[string]struct {
		readings []reading
		want     Opt[uint64]
	}{
		"processes":            {[]reading{{JobPending, no(), yes(4096)}, {JobPresent, no(), yes(8192)}, {JobGone, no(), yes(12288)}}, yes(12288)},
		"processes, twice":     {[]reading{{JobPending, no(), yes(10)}, {JobPending, no(), yes(20)}, {JobPresent, no(), yes(30)}}, yes(30)},
		"pending, with a gap":  {[]reading{{JobPending, no(), yes(10)}, {JobPending, no(), no()}, {JobPresent, no(), yes(30)}}, yes(30)},
		"present, with a gap":  {[]reading{{JobPending, no(), yes(10)}, {JobPresent, no(), no()}, {JobPresent, no(), yes(30)}}, yes(30)},
		"controller":           {[]reading{{JobPending, no(), yes(10)}, {JobPresent, yes(7), yes(20)}, {JobPresent, yes(9), yes(30)}}, yes(9)},
		"controller, later":    {[]reading{{JobPending, no(), yes(10)}, {JobPresent, no(), no()}, {JobPresent, yes(9), yes(30)}}, yes(9)},
		"never with a cgroup":  {[]reading{{JobPending, no(), yes(10)}, {JobPending, no(), yes(20)}}, no()},
		"gone before any read": {[]reading{{JobPending, no(), yes(10)}, {JobGone, no(), yes(20)}}, yes(20)},
	} {
		t.Run(name, func(t *testing.T) {
			var w Walk
			w.Step(&Snapshot{Job: JobReading{Phase: JobPending}})
			sum := None[uint64]()
			for i, r := range tt.readings {
				cur := &Snapshot{Boot: int64(i+1) * 1e9, Job: JobReading{Phase: r.phase, IOWriteBytes: r.controller, ProcWriteBytes: r.processes}}
				if n, ok := DeriveScalars(w.Step(cur), cur, ScopeJob).DiskWriteBytes.Get(); ok {
					sum.Set(sum.Or(0) + n)
				}
			}
			if sum != tt.want {
				t.Errorf("the rows add up to %v, want %v", sum, tt.want)
			}
		})
	}
}
