package spool_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// record writes a run of three snapshots to a new directory and ends it.
func record() (dir, path string) {
	dir, err := os.MkdirTemp("", "spool")
	if err != nil {
		log.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := rt.Run{
		Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](12), Node: "n1", Start: start},
		Ending:   rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		s := rt.Snapshot{Boot: int64(i) * 1e9, Wall: start.UnixNano() + int64(i)*1e9}
		s.Job.Phase = rt.JobPresent
		s.Job.CPUUsage = rt.Some(uint64(i) * 500_000) // microseconds
		if err := w.Put(&s); err != nil {
			log.Fatal(err)
		}
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "exit", Time: start.Add(2 * time.Second)})
	if err := w.End(run); err != nil {
		log.Fatal(err)
	}
	return dir, w.Path()
}

// The tracker creates the file of a run, puts snapshots and ends it.
func ExampleCreate() {
	dir, path := record()
	defer os.RemoveAll(dir)
	r, err := spool.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	n, err := r.LastSeq()
	run := r.Run()
	fmt.Println(run.Label(), run.State, run.Outcome, n, err)
	// Output: 12 ended finished 3 <nil>
}

// Rates are derived from the counters of two consecutive snapshots.
func ExampleReader_Rates() {
	dir, path := record()
	defer os.RemoveAll(dir)
	r, err := spool.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for i, err := range rt.Intervals(r.Rates(context.Background(), 1, 0)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(i.Cur.Seq, rt.DeriveScalars(i.Prev, i.Cur, rt.ScopeJob).CPUUsage.Or(0), "cores")
	}
	// Output:
	// 2 0.5 cores
	// 3 0.5 cores
}

// A user names a job; the spool returns the files of its runs.
func ExampleFindJob() {
	dir, _ := record()
	defer os.RemoveAll(dir)
	found, err := spool.FindJob(dir, "12")
	fmt.Println(len(found), err)
	_, err = spool.FindJob(dir, "99")
	fmt.Println(err != nil)
	// Output:
	// 1 <nil>
	// true
}
