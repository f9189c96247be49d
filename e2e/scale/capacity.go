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

// measured is the duration of each step of capacity.
const measured = 5 * time.Second

// capacity sends load to the receiver with a growing number of clients, each of which
// delivers one run after the other, and prints how many runs a second the receiver accepts.
func capacity(ctx context.Context, o options, r *receiver) error {
	fmt.Printf("runs a second that the receiver takes, on %d CPUs that it shares with the clients (data in %s)\n", runtime.NumCPU(), o.dir)
	for _, clients := range []int{1, 4, 16, 64} {
		if err := closedLoop(ctx, o, r, clients); err != nil {
			return err
		}
	}
	return nil
}

func closedLoop(ctx context.Context, o options, r *receiver, clients int) error {
	var t traffic
	var work sync.WaitGroup
	var runs, failed atomic.Int64
	before, err := r.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	for c := range clients {
		client, store, done, err := t.clients(r.url)
		if err != nil {
			return err
		}
		work.Go(func() {
			defer done()
			for n := c; time.Since(began) < measured; n += clients {
				if _, err := upload.Drain(ctx, newNode(n, o.rows), client, store, format, upload.Options{}); err != nil {
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
		return err
	}
	slices.Sort(t.took)
	fmt.Printf("  %2d clients: %4.0f runs/s, %d failed; a request: median %s, p99 %s; receiver: %.2f ms of CPU time a run, %.2f CPUs\n",
		clients, float64(runs.Load())/elapsed.Seconds(), failed.Load(), brief(at(t.took, 0.5)), brief(at(t.took, 0.99)),
		(after-before).Seconds()*1e3/float64(max(1, runs.Load())), (after-before).Seconds()/elapsed.Seconds())
	return nil
}
