package spool

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// What waits in memory is thinned around a counter that is set back: the rows add up
// to the same.
func TestMemoryKeepsResets(t *testing.T) {
	for at := range 6 {
		var p pending
		for i := range 16 {
			s := rt.Snapshot{Boot: int64(i+1) * 1e9}
			s.Job.Phase = rt.JobPresent
			s.Job.CPUUsage.Set(uint64(100 * (i + 1)))
			if i >= at {
				s.Job.CPUUsage.Set(uint64(5 * (i - at + 1)))
			}
			p.add(&s)
		}
		total := func() (sum uint64) {
			for i, row := range p.rows[1:] {
				if a, b := p.rows[i].Job.CPUUsage.Or(0), row.Job.CPUUsage.Or(0); b >= a {
					sum += b - a
				}
			}
			return sum
		}
		want := total()
		p.thin()
		if got := total(); got != want || p.merged == 0 {
			t.Errorf("set back at %d: the rows add up to %d, and to %d before %d of them went", at, got, want, p.merged)
		}
	}
}

// Rows in memory are thinned around the end of the job's pending phase. The bytes of the rows add
// up to the same.
func TestMemoryKeepsPhases(t *testing.T) {
	for at := 1; at < 6; at++ {
		var p pending
		for i := range 16 {
			s := rt.Snapshot{Boot: int64(i+1) * 1e9}
			s.Job.Phase = rt.JobPending
			if i != at { // the first reading of the cgroup has neither figure
				s.Job.ProcWriteBytes.Set(uint64(100 * (i + 1)))
			}
			if i >= at {
				s.Job.Phase = rt.JobPresent
			}
			if i > at {
				s.Job.IOWriteBytes.Set(uint64(70 * (i + 1)))
			}
			p.add(&s)
		}
		total := func() (sum uint64) {
			var w rt.Walk
			for _, row := range p.rows {
				if prev := w.Step(row); prev != nil {
					sum += rt.DeriveScalars(prev, row, rt.ScopeJob).DiskWriteBytes.Or(0)
				}
			}
			return sum
		}
		want := total()
		p.thin()
		if got := total(); got != want || p.merged == 0 {
			t.Errorf("found at %d: the rows add up to %d, and to %d before %d of them went", at, got, want, p.merged)
		}
	}
}

// What waits in memory is thinned around the first reading of a counter: the interval after it stays.
func TestMemoryKeepsFirstReadings(t *testing.T) {
	some := rt.Some[uint64]
	put := map[string]func(*rt.Snapshot, uint64){
		"job":    func(s *rt.Snapshot, n uint64) { s.Job.IOReadBytes = some(n) },
		"node":   func(s *rt.Snapshot, n uint64) { s.Node.CPU.Set(rt.CPUTimes{User: n}) },
		"energy": func(s *rt.Snapshot, n uint64) { s.Energy = []rt.EnergyReading{{Domain: "a", Energy: some(n)}} },
		"listed": func(s *rt.Snapshot, n uint64) {
			s.Energy = append(s.Energy, rt.EnergyReading{Domain: "a"}, rt.EnergyReading{Domain: "b", Energy: some(n)})
		},
		"moved": func(s *rt.Snapshot, n uint64) {
			s.Energy = slices.Insert(s.Energy, 0, rt.EnergyReading{Domain: "b", Energy: some(n)})
		},
		"perf": func(s *rt.Snapshot, n uint64) {
			s.Perf = []rt.PerfReading{{Group: "core", Event: "instructions", Value: some(n)}}
		},
	}
	total := func(rows []*rt.Snapshot) (sum uint64) {
		var w rt.Walk
		for _, row := range rows {
			prev := w.Step(row)
			if prev == nil {
				continue
			}
			used := []rt.Opt[uint64]{between(prev.Job.IOReadBytes, row.Job.IOReadBytes), between(ticks(prev), ticks(row))}
			for i := range row.Energy {
				used = append(used, row.Energy[i].UsedSince(prev, i))
			}
			if len(prev.Perf) == len(row.Perf) && len(row.Perf) > 0 {
				used = append(used, between(prev.Perf[0].Value, row.Perf[0].Value))
			}
			for _, u := range used {
				sum += u.Or(0)
			}
		}
		return sum
	}
	for name, set := range put {
		for at := range 8 {
			for _, reason := range []rt.Reason{rt.ReasonTick, rt.ReasonStop} {
				var p pending
				for i := range 16 {
					s := rt.Snapshot{Boot: int64(i+1) * 1e9, Reason: reason}
					s.Job.Phase = rt.JobPresent
					if name == "moved" {
						s.Energy = []rt.EnergyReading{{Domain: "z", Energy: some(5)}}
					}
					if i >= at {
						set(&s, uint64(100*(i+1)))
					}
					p.add(&s)
				}
				want := total(p.rows)
				p.thin()
				if got := total(p.rows); got != want || want == 0 || p.merged == 0 {
					t.Errorf("%s, first read at %d, %s: the rows add up to %d, and to %d before %d of them went", name, at, reason, got, want, p.merged)
				}
			}
		}
	}
}

func ticks(s *rt.Snapshot) (n rt.Opt[uint64]) {
	if times, ok := s.Node.CPU.Get(); ok {
		n.Set(times.User)
	}
	return n
}

func between(before, now rt.Opt[uint64]) (n rt.Opt[uint64]) {
	if before.Valid() && now.Valid() {
		n.Set(now.Or(0) - before.Or(0))
	}
	return n
}

func TestThinKeepsFirstsAndTotals(t *testing.T) {
	var p pending
	for i := range 16 {
		s := &rt.Snapshot{Seq: int64(i + 1)}
		if i == 3 {
			s.Reason = rt.ReasonAppeared
		}
		if i == 0 || i%2 == 1 {
			s.Job.CPUUsage.Set(uint64(i))
		}
		p.add(s)
	}
	p.thin()
	var left []int64
	for _, s := range p.rows {
		left = append(left, s.Seq)
	}
	want := []int64{1, 3, 4, 6, 8, 10, 12, 13, 14, 15, 16}
	if len(left) != len(want) {
		t.Fatalf("left are %v, want %v", left, want)
	}
	for i := range want {
		if left[i] != want[i] {
			t.Fatalf("left are %v, want %v", left, want)
		}
	}
	if p.merged != 5 {
		t.Errorf("merged %d", p.merged)
	}
	if got := p.rows[1].Job.CPUUsage; got != rt.Some[uint64](1) {
		t.Errorf("the total of the dropped second snapshot is gone: %v", got)
	}
	for range 10 { // nothing but extraordinary ones: the bound holds all the same
		for _, s := range p.rows {
			s.Reason = rt.ReasonStop
		}
		before := len(p.rows)
		p.thin()
		if before > 2 && len(p.rows) >= before {
			t.Fatalf("%d rows stay %d", before, len(p.rows))
		}
	}
}

// On a disk that is full again and again Notify is called once a minute, and for every failure that
// lasts. The ledger has all failures.
func TestNotifyIsBounded(t *testing.T) {
	var notified []string
	w := mustCreate(t, Options{CommitRows: 1, Notify: func(e rt.Event) { notified = append(notified, e.Status) }})
	var s rt.Snapshot
	put := func(pages int64) {
		t.Helper()
		limit(t, w, pages)
		for range 40 { // until a page is full
			s.Boot += int64(50 * time.Millisecond)
			s.CPUs = make([]rt.CPUReading, 64)
			for i := range s.CPUs {
				s.CPUs[i].Times.User = uint64(s.Boot) * uint64(i+1)
			}
			if err := w.Put(&s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 { // 4 s each
		put(1)
		put(1 << 30)
	}
	if got := strings.Join(notified, " "); got != "failed ok" {
		t.Errorf("20 s: Notify got %q", got)
	}
	for range 31 { // beyond the minute
		put(1)
	}
	if got := strings.Join(notified, " "); got != "failed ok failed" {
		t.Errorf("a failure that lasts: Notify got %q", got)
	}
	put(1 << 30)
	if got := strings.Join(notified, " "); got != "failed ok failed ok" {
		t.Errorf("after it: Notify got %q", got)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	if events, err := mustOpen(t, w.Path()).Events(); err != nil || len(events) != 12 {
		t.Errorf("%d events are in the ledger, want 6 pairs, %v", len(events), err)
	}
}
