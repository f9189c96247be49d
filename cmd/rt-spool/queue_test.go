package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

// cmdTask puts the run of a task of an array into the spool, which a signal ended ten seconds ago: task JOB USER
// ARRAY_TASK. The array is known from the environment of its processes alone.
func cmdTask(ts *testscript.TestScript, _ bool, args []string) {
	job, err := strconv.ParseUint(args[0], 10, 64)
	ts.Check(err)
	array, task, _ := strings.Cut(args[2], "_")
	end := time.Now().Add(-10 * time.Second)
	start := end.Add(-time.Minute)
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Node: "n1", BootID: "another-boot", Start: start},
		Allocation: rt.Allocation{Scheduler: "slurm", User: args[1], Account: "chem", AllocCPUs: rt.Some[uint64](2)},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	environment := []string{"SLURM_JOB_ID=" + args[0], "SLURM_JOB_NAME=sweep", "SLURM_ARRAY_JOB_ID=" + array, "SLURM_ARRAY_TASK_ID=" + task}
	environ.MergeTaskEnv(&run, environ.NewEnv(environment), true)
	w, err := spool.Create(ts.MkAbs("spool"), run, rt.Host{HostName: "n1"}, spool.Options{})
	ts.Check(err)
	for i := range int64(4) {
		s := snapshot(i, start)
		ts.Check(w.Put(&s))
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](15), Outcome: rt.OutcomeTerminated, Source: "epilog", Time: end})
	ts.Check(w.End(run))
}
