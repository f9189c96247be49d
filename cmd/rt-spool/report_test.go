package main

import (
	"fmt"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// cmdHistory puts finished runs of one job script into the spool, as tasks of array 500 or as
// separate jobs. history job|array NAME MIB... creates one run for each MIB, its peak, from job 501
// on. A run takes two minutes on 2 cores and has a limit of 1 GiB.
func cmdHistory(ts *testscript.TestScript, _ bool, args []string) {
	for i, arg := range args[2:] {
		var mib uint64
		_, err := fmt.Sscan(arg, &mib)
		ts.Check(err)
		start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
		run := rt.Run{
			Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(501 + uint64(i)), Node: "n1", BootID: "another-boot", Start: start},
			Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", AllocCPUs: rt.Some[uint64](2), NumNodes: rt.Some[uint64](1), JobStart: start, JobEndLimit: start.Add(time.Hour)},
			Meta:       rt.Metadata{JobName: args[1]},
			Ending:     rt.Ending{State: rt.StateRunning},
		}
		if args[0] == "array" {
			run.ArrayJobID, run.ArrayTaskID = rt.Some[uint64](500), rt.Some(uint64(i))
		}
		w, err := spool.Create(ts.MkAbs("spool"), run, rt.Host{HostName: "n1"}, spool.Options{})
		ts.Check(err)
		for k := range int64(4) {
			s := snapshot(k, start)
			if s.Wall, s.Boot = start.UnixNano()+k*40e9, 500e9+k*40e9; k > 0 {
				s.Job.MemPeak, s.Job.MemLimit, s.Job.EventsOOMKill = rt.Some(mib<<20), rt.Some[uint64](1<<30), rt.Some[uint64](0)
			}
			ts.Check(w.Put(&s))
		}
		run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: start.Add(2 * time.Minute)})
		ts.Check(w.End(run))
	}
}
