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
