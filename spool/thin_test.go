package spool

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// A counter that is set back: both sides of that stay, so that the rows of a
// delivery add up to the same.
func TestThinningKeepsResets(t *testing.T) {
	var list []*rt.Snapshot
	for i := range 2000 {
		s := &rt.Snapshot{Seq: int64(i + 1), Boot: int64(i+1) * 1e9, Wall: int64(i+1) * 1e9}
		s.Job.Phase = rt.JobPresent
		s.Job.CPUUsage.Set(uint64(i%17) * 1000) // set back every 17 s
		s.CPUs = make([]rt.CPUReading, 32)
		for c := range s.CPUs {
			s.CPUs[c] = rt.CPUReading{CPU: c, Times: rt.CPUTimes{User: uint64(i*i*c) * 977}}
		}
		list = append(list, s)
	}
	small, large := writeBoth(t, 200<<10, list)
	total := func(r *Reader) (sum uint64) {
		var prev uint64
		for s, err := range r.Scalars(t.Context(), 1, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if now := s.Job.CPUUsage.Or(0); now > prev {
				sum += now - prev
				prev = now
			} else {
				prev = now
			}
		}
		return sum
	}
	n, err := small.Count()
	if a, b := total(small), total(large); a != b || n > 1500 || err != nil {
		t.Errorf("%d snapshots have a total of %d, want %d, %v", n, a, b, err)
	}
}

// The first reading of a counter that appears late stays, so that the intervals add up to the same.
func TestThinningKeepsFirstReadings(t *testing.T) {
	t.Parallel()
	some := rt.Some[uint64]
	var list []*rt.Snapshot
	for i := range 2000 {
		s := &rt.Snapshot{Seq: int64(i + 1), Boot: int64(i+1) * 1e9, Wall: int64(i+1) * 1e9}
		s.Job.Phase = rt.JobPresent
		if i >= 50 {
			s.Job.IOReadBytes = some(uint64(i) * 1000)
		}
		if i >= 52 {
			s.Energy = []rt.EnergyReading{{Source: "gpu", Domain: "a", Kind: rt.EnergyGPU, Energy: some(uint64(i) * 1000)}}
		}
		if i >= 54 {
			s.Perf = []rt.PerfReading{{Group: "core", Event: "instructions", Value: some(uint64(i) * 1000)}}
		}
		s.CPUs = make([]rt.CPUReading, 32)
		for c := range s.CPUs {
			s.CPUs[c] = rt.CPUReading{CPU: c, Times: rt.CPUTimes{User: uint64(i*i*c) * 977}}
		}
		list = append(list, s)
	}
	small, large := writeBoth(t, 200<<10, list)
	total := func(r *Reader) (sums [3]uint64) {
		for i, err := range rt.Intervals(r.Snapshots(t.Context(), 1, 0)) {
			if err != nil {
				t.Fatal(err)
			}
			sums[0] += between(i.Prev.Job.IOReadBytes, i.Cur.Job.IOReadBytes).Or(0)
			for n := range i.Cur.Energy {
				sums[1] += i.Cur.Energy[n].UsedSince(i.Prev, n).Or(0)
			}
			if len(i.Prev.Perf) > 0 {
				sums[2] += between(i.Prev.Perf[0].Value, i.Cur.Perf[0].Value).Or(0)
			}
		}
		return sums
	}
	n, err := small.Count()
	if a, b := total(small), total(large); a != b || n > 1500 || err != nil {
		t.Errorf("%d snapshots have totals of %d, want %d, %v", n, a, b, err)
	}
}

// The hours of GPUs stay: a snapshot has the mean usage of the time that it stands for.
func TestThinningKeepsGPUHours(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 9))
	boot := int64(1e12)
	var list []*rt.Snapshot
	for i := range 2000 {
		boot += 1e6 * (1 + rng.Int64N(2000))
		s := &rt.Snapshot{Seq: int64(i + 1), Boot: boot, Wall: boot}
		s.Node.GPUUsage, s.GPU.Usage = rt.Some(4*rng.Float64()), rt.Some(rng.Float64())
		for c := range 32 {
			s.CPUs = append(s.CPUs, rt.CPUReading{CPU: c, Times: rt.CPUTimes{User: uint64(i*i*c) * 977}})
		}
		list = append(list, s)
	}
	small, large := writeBoth(t, 200<<10, list)
	hours := func(r *Reader) (node, job float64) {
		for i, err := range rt.Intervals(r.Scalars(t.Context(), 1, 0)) {
			if err != nil {
				t.Fatal(err)
			}
			hours := float64(i.Cur.Boot-i.Prev.Boot) / 3600e9
			node, job = node+i.Cur.Node.GPUUsage.Or(0)*hours, job+i.Cur.GPU.Usage.Or(0)*hours
		}
		return node, job
	}
	n, err := small.Count()
	node, job := hours(small)
	wantNode, wantJob := hours(large)
	if math.Abs(node-wantNode) > 1e-9 || math.Abs(job-wantJob) > 1e-9 || n > 1500 || err != nil {
		t.Errorf("%d snapshots have %v and %v hours, want %v and %v, %v", n, node, job, wantNode, wantJob, err)
	}
}

// Batches that are sealed keep their snapshots, and one that was read before they
// were thinned is not sealed.
func TestThinningLeavesSealedBatchesAlone(t *testing.T) {
	t.Parallel()
	w := mustCreate(t, Options{QuotaRun: 1 << 20})
	m := newMachine(4, 0)
	put := func(n int) {
		t.Helper()
		for range n {
			if err := w.Put(m.next()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	put(550)
	if n, err := thinned(w.db); n > 0 || err != nil {
		t.Fatalf("%d snapshots were thinned already, %v", n, err)
	}
	r := mustOpen(t, w.Path())
	before := collect(t, r, 1, 500)
	sum := strings.Repeat("0", 64)
	if err := r.Delivery().SealBatch(rt.Batch{Number: 1, FirstSeq: 2, LastSeq: 500, Rows: 499, SHA256: sum, Key: "a", SealedAt: start}); err != nil {
		t.Fatal(err)
	}
	put(4000)
	after := collect(t, r, 1, 500)
	for i, s := range after {
		same(t, before[i], s)
	}
	next := rt.Batch{Number: 2, FirstSeq: 501, LastSeq: 3000, Rows: 2500, SHA256: sum, Key: "b", SealedAt: start}
	n, err := r.db.queryInt("SELECT count(*) FROM snapshot WHERE seq BETWEEN 501 AND 3000")
	if err != nil || n == 2500 {
		t.Fatalf("%d snapshots were not thinned, %v", n, err)
	}
	if err := r.Delivery().SealBatch(next); !errors.Is(err, ErrOutOfOrder) || !strings.Contains(err.Error(), "thinned") {
		t.Errorf("a batch of snapshots that were thinned meanwhile: %v", err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
}

// Who reads while the tracker thins sees what was there when it began.
func TestReadingWhileSnapshotsAreThinned(t *testing.T) {
	t.Parallel()
	w := mustCreate(t, Options{QuotaRun: 300 << 10})
	m := newMachine(16, 2)
	var list []*rt.Snapshot
	for range 1000 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
		list = append(list, clone(&m.snap))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	first, err := r.Count()
	if err != nil {
		t.Fatal(err)
	}
	n, last := int64(0), int64(0)
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		peakSince(list[s.Seq-1], list[last:s.Seq-1])
		last = s.Seq
		same(t, list[s.Seq-1], s)
		n++
		for range 4 {
			if err := w.Put(m.next()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if second, err := r.Count(); n != first || second >= first+3000 || err != nil {
		t.Errorf("read %d of %d snapshots; now there are %d, %v", n, first, second, err)
	}
}

// The file of a run that has ended is thinned by the process that enforces the node's quota.
func TestThinAnEndedRun(t *testing.T) {
	t.Parallel()
	w := mustCreate(t, Options{})
	m := newMachine(16, 1)
	n := sized(8000, 5000)
	for range n {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	before := lastValues(t, w.Path())
	large, err := diskUsage(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	dropped, err := r.Thin(large / 8)
	if err != nil || dropped == 0 {
		t.Fatalf("%d dropped, %v", dropped, err)
	}
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	small, err := diskUsage(w.Path())
	if err != nil || small > large/8 {
		t.Errorf("%d bytes, then %d, %v", large, small, err)
	}
	got := collect(t, r, int64(n), int64(n))[0]
	same(t, clone(&m.snap), got)
	for name, v := range lastValues(t, w.Path()) {
		if before[name] != v {
			t.Errorf("the last %s is %v, was %v", name, v, before[name])
		}
	}
	if dropped, err := r.Thin(0); err != nil || dropped == 0 {
		t.Errorf("as far as it goes: %d, %v", dropped, err)
	}
	least, err := diskUsage(w.Path())
	if err != nil || least > quotaFloor {
		t.Errorf("thinned as far as it goes: %d bytes, %v", least, err)
	}
	onlyFile(t, w.Path())
}
