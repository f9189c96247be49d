//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt/format/gempba"
)

// figures compares what the workers used in some seconds, and hold, with the kernel's
// figures of their processes at the same instants. On a busy machine a reading is late by a
// varying part of its interval; then the test uses more intervals.
func (v *viewer) figures(t *testing.T) {
	pids := map[uint32][]int{}
	for _, i := range v.whole.Topology.Identities {
		pid := int(i.PID.Or(0))
		pids[i.WorkerID] = append(childrenOf(t, pid), pid)
	}
	until(t, "the tasks to hold their memory", func() bool {
		return !slices.ContainsFunc(v.next(t).Workers, func(w gempba.WorkerFrame) bool { return w.ProcessRSSBytes.Or(0) < 25<<20 })
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clocks := []clock{clocksOf(pids)}
	began := clocks[0].ms
	var watched sync.WaitGroup
	watched.Go(func() { clocks = append(clocks, watchClocks(ctx, pids)...) })
	of := map[uint32]*used{}
	for range 40 {
		for _, w := range v.next(t).Workers {
			if of[w.WorkerID] == nil {
				of[w.WorkerID] = &used{}
			}
			if !of[w.WorkerID].add(&w, began) {
				continue
			}
			if is := residentOf(t, pids[w.WorkerID]); math.Abs(float64(w.ProcessRSSBytes.Or(0))-is) > 0.02*is {
				t.Errorf("worker %d holds %d bytes, its processes %.0f", w.WorkerID, w.ProcessRSSBytes.Or(0), is)
			}
		}
	}
	stop()
	watched.Wait()
	for _, id := range slices.Sorted(maps.Keys(pids)) {
		got, is := of[id].seconds, 0.0
		for _, span := range of[id].of {
			is += ranUntil(clocks, id, span[1]) - ranUntil(clocks, id, span[0])
		}
		t.Logf("worker %d used %.3f s of CPU time in %d frames, its processes %.3f s", id, got, len(of[id].of), is)
		if !(math.Abs(got-is) <= 0.02*is) || len(of[id].of) < 10 {
			t.Errorf("worker %d used %.3f s of CPU time in %d frames, its processes %.3f s", id, got, len(of[id].of), is)
		}
	}
}

// used is what consecutive frames of a worker report.
type used struct {
	at      int64
	seq     uint64
	seconds float64
	of      [][2]int64 // the intervals
}

// add returns false if the frame is from before an instant, or is a repeated frame of the
// other node.
func (u *used) add(w *gempba.WorkerFrame, began int64) bool {
	at, seq := w.WorkerLocalMS.Or(0), w.SeqNo.Or(0)
	if at < began || seq == u.seq {
		return false
	}
	if u.seq > 0 && seq == u.seq+1 {
		u.seconds += w.ProcessCPUPct.Or(math.NaN()) / 100 * float64(at-u.at) / 1e3
		u.of = append(u.of, [2]int64{u.at, at})
	}
	u.at, u.seq = at, seq
	return true
}

// clock is the CPU time of processes at an instant.
type clock struct {
	ms  int64
	ran map[uint32]float64 // seconds, by worker
}

func clocksOf(pids map[uint32][]int) clock {
	at := clock{ms: time.Now().UnixMilli(), ran: map[uint32]float64{}}
	for id, list := range pids {
		at.ran[id] = ranOf(list)
	}
	return at
}

// watchClocks reads the processes' clocks until ctx is done.
func watchClocks(ctx context.Context, pids map[uint32][]int) (out []clock) {
	for ctx.Err() == nil {
		out = append(out, clocksOf(pids))
		time.Sleep(20 * time.Millisecond)
	}
	return append(out, clocksOf(pids))
}

// ranUntil returns a worker's CPU time at an instant, interpolated between two readings.
func ranUntil(clocks []clock, worker uint32, ms int64) float64 {
	at, found := slices.BinarySearchFunc(clocks, ms, func(c clock, ms int64) int { return cmp.Compare(c.ms, ms) })
	switch {
	case at == len(clocks) || at == 0 && !found:
		return math.NaN()
	case found:
		return clocks[at].ran[worker]
	}
	a, b := clocks[at-1], clocks[at]
	return a.ran[worker] + (b.ran[worker]-a.ran[worker])*float64(ms-a.ms)/float64(b.ms-a.ms)
}

func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, child)
	}
	return pids
}

// ranOf returns the CPU time of single-threaded processes in seconds, NaN if one is gone.
func ranOf(pids []int) (sum float64) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			return math.NaN()
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			return math.NaN()
		}
		sum += ns / 1e9
	}
	return sum
}

// residentOf is VmRSS, in bytes.
func residentOf(t *testing.T, pids []int) (sum float64) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += kib * 1024
	}
	return sum
}
