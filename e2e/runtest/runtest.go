// Package runtest has the spooled runs that the tests of the conversions share.
package runtest

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Spool writes a run of the snapshots into a spool of its own and opens it.
func Spool(t testing.TB, run rt.Run, snapshots []rt.Snapshot) *spool.Reader {
	t.Helper()
	w, err := spool.Create(t.TempDir(), run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range snapshots {
		if err := w.Put(&snapshots[i]); err != nil {
			t.Fatal(err)
		}
	}
	run.End = time.Unix(0, snapshots[len(snapshots)-1].Wall)
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return Open(t, w.Path())
}

// Open opens a spool file until the test ends.
func Open(t testing.TB, path string) *spool.Reader {
	t.Helper()
	r, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Job returns a job of 20 minutes on two of four CPUs and one of two GPUs, read every 10 s.
func Job() (rt.Run, []rt.Snapshot) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](99), Node: "n7", Start: start},
		Allocation: rt.Allocation{User: "anna", AllocCPUs: rt.Some[uint64](2)},
		Meta:       rt.Metadata{JobName: "md"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	var list []rt.Snapshot
	for i := range int64(121) {
		s := rt.Snapshot{
			Seq: i + 1, Wall: start.UnixNano() + i*10e9 + i%7*30e6, Boot: 7e12 + i*10e9 + i%7*30e6,
			Node: rt.NodeReading{CPUs: rt.Some[uint64](4)},
			CPUs: []rt.CPUReading{{CPU: 0, Times: rt.CPUTimes{User: uint64(i * 900)}}, {CPU: 1}, {CPU: 2}, {CPU: 3, Times: rt.CPUTimes{System: uint64(90000 + i)}}},
			Job:  rt.JobReading{Phase: rt.JobPending},
		}
		if i == 0 {
			s.Reason = rt.ReasonFirst
			list = append(list, s)
			continue
		}
		s.Job = rt.JobReading{
			Phase: rt.JobPresent, CPUUsage: rt.Some(uint64(i) * 15_123_456), Anon: rt.Some(uint64(1+i%50) << 20),
			MemCurrent: rt.Some[uint64](64 << 20), Pids: rt.Some(uint64(1 + i%9)),
		}
		if i%10 == 5 { // it could not be read
			s.Job = rt.JobReading{Phase: rt.JobPresent}
		}
		s.GPUs = []rt.GPUReading{
			{UUID: "GPU-a", Host: "0", Type: "GPU", VRAMTotal: rt.Some[uint64](80 << 30), VRAMUsed: rt.Some[uint64](0), InJob: rt.Some(false)},
			{UUID: "GPU-b", Host: "1", Type: "GPU", VRAMTotal: rt.Some[uint64](80 << 30), VRAMUsed: rt.Some[uint64](20 << 30), Utilization: rt.Some(75.0), InJob: rt.Some(true)},
		}
		s.GPU = rt.GPUUse{Usage: rt.Some(0.75), VRAMUsed: rt.Some[uint64](20 << 30)}
		list = append(list, s)
	}
	list[120].Reason = rt.ReasonLast
	return run, list
}
