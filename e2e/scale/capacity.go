package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt/upload"
)

// measured is the maximum duration of each step of capacity. A step also ends when all its runs
// are delivered.
const measured = 5 * time.Second

// step is a part of capacity: a number of clients and of runs.
type step struct{ clients, runs int }

var steps = []step{{1, 2000}, {16, 7000}, {64, 8000}}

// capacity sends load to the receiver with a growing number of clients, each of which
// delivers one run after the other, and prints how many runs a second the receiver accepts. It returns
// the figures of the last step.
func capacity(ctx context.Context, o options, st stores, r *receiver) ([]figure, error) {
	fmt.Printf("runs a second that the receiver takes with %s, on %d CPUs that it shares with the clients and the stores (data in %s)\n", st.name, runtime.NumCPU(), o.dir)
	var rate float64
	first := 0
	for _, s := range steps {
		var err error
		if rate, err = closedLoop(ctx, o, r, s, first); err != nil {
			return nil, err
		}
		first += s.runs
	}
	fmt.Println()
	return []figure{
		{"runs with their records, 64 clients, " + st.name, rate, st.goal, "runs/s", false},
		{"memory of the receiver at this load, " + st.name, r.resident(), 150, "MiB", true},
	}, nil
}

func closedLoop(ctx context.Context, o options, r *receiver, s step, first int) (rate float64, err error) {
	var t traffic
	var work sync.WaitGroup
	var next, runs, failed atomic.Int64
	before, err := r.cpu()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range s.clients {
		client, store, done, err := t.clients(r.url)
		if err != nil {
			return 0, err
		}
		work.Go(func() {
			defer done()
			for n := next.Add(1); n <= int64(s.runs) && time.Since(began) < measured; n = next.Add(1) {
				if _, err := upload.Drain(ctx, newNode(first+int(n)-1, o.rows, o.records), client, store, format, upload.Options{}); err != nil {
					failed.Add(1)
				} else {
					runs.Add(1)
				}
			}
		})
	}
	work.Wait()
	elapsed := time.Since(began)
	after, err := r.cpu()
	if err != nil {
		return 0, err
	}
	slices.Sort(t.took)
	rate = float64(runs.Load()) / elapsed.Seconds()
	fmt.Printf("  %2d clients: %4.0f runs/s, %d failed; a request: median %s, p99 %s; receiver: %.2f ms of CPU time a run, %.2f CPUs\n",
		s.clients, rate, failed.Load(), brief(at(t.took, 0.5)), brief(at(t.took, 0.99)),
		(after-before).Seconds()*1e3/float64(max(1, runs.Load())), (after-before).Seconds()/elapsed.Seconds())
	return rate, nil
}
