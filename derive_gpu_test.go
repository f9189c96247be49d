package rt

import "testing"

// A job's rows show its own GPUs, and nothing where nothing was read of them.
func TestJobScopeShowsTheJobsGPUs(t *testing.T) {
	s := job(1, JobPresent, 0, 0, 0)
	s.Node.GPUUsage, s.Node.GPUVRAMUsed, s.Node.GPUUtilized = Some(3.5), Some[uint64](7<<30), Some[uint64](4)
	if d := DeriveScalars(nil, s, ScopeJob); d.GPUUsage.Valid() || d.GPUVRAMUsed.Valid() || d.GPUUtilized.Valid() {
		t.Errorf("the node's, for want of the job's: %+v", d)
	}
	s.GPU = GPUUse{Usage: Some(0.5), Utilized: Some[uint64](1)}
	d := DeriveScalars(nil, s, ScopeJob)
	wantF(t, "gpu_usage", d.GPUUsage, 0.5)
	wantU(t, "gpu_utilized", d.GPUUtilized, 1)
	wantAbsent(t, "memory that was not read of the job's GPUs", d.GPUVRAMUsed)
	wantF(t, "gpu_usage of the node", DeriveScalars(nil, s, ScopeNode).GPUUsage, 3.5)
	if p := DeriveProcess(nil, s); p.GPU != s.GPU {
		t.Errorf("process_gpu_*: %+v", p.GPU)
	}
	s.Job = JobReading{}
	if p := DeriveProcess(nil, s); p.GPU != s.GPU {
		t.Errorf("process_gpu_* of a tree: %+v", p.GPU)
	}
	wantF(t, "gpu_usage without a job", DeriveScalars(nil, s, ScopeJob).GPUUsage, 3.5)
}

// The bytes of a job are counted once: by its processes while there is no counter of the io
// controller, by the controller from then on.
func TestJobIOChangesItsSourceWithoutCountingTwice(t *testing.T) {
	some := Some[uint64]
	type io struct{ controller, processes Opt[uint64] }
	for _, tt := range []struct {
		name     string
		readings []io
		want     uint64
	}{
		{"controller", []io{{some(10), Opt[uint64]{}}, {some(15), Opt[uint64]{}}}, 15},
		{"processes", []io{{Opt[uint64]{}, some(10)}, {Opt[uint64]{}, some(15)}}, 15},
		{"both", []io{{some(10), some(11)}, {some(15), some(17)}}, 15},
		{"controller comes late", []io{{Opt[uint64]{}, some(10)}, {some(15), some(15)}, {some(18), some(18)}}, 18},
		{"controller has a gap", []io{{some(10), some(10)}, {Opt[uint64]{}, some(15)}, {some(18), some(18)}}, 18},
		{"processes have a gap", []io{{Opt[uint64]{}, some(10)}, {}, {Opt[uint64]{}, some(15)}}, 15},
	} {
		list := []*Snapshot{job(0, JobPending, 0, 0, 0)}
		for i, r := range tt.readings {
			s := job(int64(i+1), JobPresent, 0, 0, 0)
			s.Job.IOReadBytes, s.Job.ProcReadBytes = r.controller, r.processes
			s.Job.IOWriteBytes, s.Job.ProcWriteBytes = r.controller, r.processes
			list = append(list, s)
		}
		var read, written uint64
		for i, err := range Intervals(reusing(list, nil)) {
			if err != nil {
				t.Fatal(err)
			}
			d := DeriveScalars(i.Prev, i.Cur, ScopeJob)
			read, written = read+d.DiskReadBytes.Or(0), written+d.DiskWriteBytes.Or(0)
		}
		if read != tt.want || written != tt.want {
			t.Errorf("%s: read %d, written %d, want %d", tt.name, read, written, tt.want)
		}
	}
}
