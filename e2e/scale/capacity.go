package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/upload"
)

// measured is the maximum duration of each step of capacity. A step also ends when all its runs
// are delivered.
const measured = 5 * time.Second

// step is a part of capacity: a number of clients and of runs.
type step struct{ clients, runs int }

var steps = []step{{1, 2000}, {16, 7000}, {64, 8000}}

// capacity sends load to the receiver with a growing number of clients, and prints how many runs a second the
// receiver accepts. Each client delivers one run after the other. It returns the figures of the last step.
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

// spooled are the runs of one client: it delivers them in one drain, with the connections and the buffers of a drain.
type spooled struct {
	o       options
	entries []upload.Entry
	numbers map[string]int
}

// newSpooled makes the runs of a client: of the runs of a step every one at the distance of the number of clients.
func newSpooled(o options, s step, first, client int) *spooled {
	d := &spooled{o: o, numbers: map[string]int{}}
	for n := first + client; n < first+s.runs; n += s.clients {
		name := fmt.Sprintf("run-%d.db", n)
		d.entries = append(d.entries, upload.Entry{Name: name, Start: began})
		d.numbers[name] = n
	}
	return d
}

// Runs and Open implement upload.Directory.
func (d *spooled) Runs(context.Context) ([]upload.Entry, error) { return d.entries, nil }
func (d *spooled) Open(name string) (upload.Spooled, error) {
	return newNode(d.numbers[name], d.o.rows, d.o.records), nil
}

func closedLoop(ctx context.Context, o options, r *receiver, s step, first int) (rate float64, err error) {
	var t traffic
	var work sync.WaitGroup
	var runs, failed atomic.Int64
	before, err := r.cpu()
	if err != nil {
		return 0, err
	}
	own := ownCPU()
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, measured)
	defer cancel()
	for c := range s.clients {
		client, store, done, err := t.clients(r.url)
		if err != nil {
			return 0, err
		}
		work.Go(func() {
			defer done()
			// The summary has the error. Runs that wait at the end of the time are not counted.
			sum, _ := upload.Drain(ctx, newSpooled(o, s, first, c), client, store, upload.DrainOptions{Concurrency: 1})
			runs.Add(int64(sum.Delivered))
			failed.Add(int64(sum.Failed + sum.Damaged))
		})
	}
	work.Wait()
	elapsed := time.Since(start)
	own = ownCPU() - own
	after, err := r.cpu()
	if err != nil {
		return 0, err
	}
	slices.Sort(t.took)
	rate = float64(runs.Load()) / elapsed.Seconds()
	number := float64(max(1, runs.Load()))
	fmt.Printf("  %2d clients: %4.0f runs/s, %d failed; a request: median %s, p99 %s; CPU time a run: receiver %.2f ms, clients %.2f ms; receiver: %.2f CPUs\n",
		s.clients, rate, failed.Load(), brief(at(t.took, 0.5)), brief(at(t.took, 0.99)),
		(after-before).Seconds()*1e3/number, own.Seconds()*1e3/number, (after-before).Seconds()/elapsed.Seconds())
	return rate, nil
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
