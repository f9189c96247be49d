package rt

import (
	"math/rand/v2"
	"testing"
)

func memNode(total, free, buffers, cached, slab uint64) *Snapshot {
	s := node(1, 0, 0, 0)
	s.Node.MemTotal.Set(total << 20)
	s.Node.MemFree.Set(free << 20)
	s.Node.Buffers.Set(buffers << 20)
	s.Node.Cached.Set(cached << 20)
	s.Node.SReclaimable.Set(slab << 20)
	s.Node.MemAvailable.Set((free + cached) << 20)
	return s
}

func TestNodeMemory(t *testing.T) {
	s := memNode(1000, 100, 50, 200, 30)
	s.Node.SwapTotal.Set(400 << 20)
	s.Node.SwapFree.Set(300 << 20)
	m := Derive(nil, s, ScopeNode).Memory
	wantU(t, "used_mib", m.UsedMiB, 620)
	wantU(t, "cached_mib", m.CachedMiB, 230)
	wantF(t, "used_pct", m.UsedPct, 62)
	wantU(t, "swap_used_mib", m.SwapUsedMiB, 100)
	wantF(t, "swap_used_pct", m.SwapUsedPct, 25)
	sum := m.FreeMiB.Or(0) + m.UsedMiB.Or(0) + m.BuffersMiB.Or(0) + m.CachedMiB.Or(0)
	if sum > m.TotalMiB.Or(0) {
		t.Errorf("parts add up to %d MiB of %d", sum, m.TotalMiB.Or(0))
	}
}

func TestMemUsedIsNeverBelowZero(t *testing.T) {
	s := memNode(1000, 900, 100, 100, 0)
	wantU(t, "used", s.Node.MemUsed(), 0)
	s.Node.SReclaimable.Clear()
	wantAbsent(t, "used without SReclaimable", s.Node.MemUsed())
}

func TestNoSwap(t *testing.T) {
	s := memNode(1000, 900, 0, 0, 0)
	s.Node.SwapTotal.Set(0)
	s.Node.SwapFree.Set(0)
	wantF(t, "swap_used_pct", Derive(nil, s, ScopeNode).Memory.SwapUsedPct, 0)
	s.Job.Phase = JobPresent // its swap is not counted
	m := Derive(nil, s, ScopeJob).Memory
	wantF(t, "swap_used_pct of a job", m.SwapUsedPct, 0)
	wantAbsent(t, "swap_used_mib of a job", m.SwapUsedMiB)
}

func TestJobMemory(t *testing.T) {
	tests := []struct {
		name                     string
		limit                    Opt[uint64]
		total, free, used, avail uint64
		current, file, slab      uint64
	}{
		{name: "limited", limit: Some[uint64](500 << 20), current: 300, file: 100, slab: 20, total: 500, free: 200, used: 180, avail: 320},
		{name: "unlimited", limit: Some(Unlimited), current: 300, file: 100, slab: 20, total: 1000, free: 900, used: 180, avail: 900},
		{name: "limit not read", current: 300, file: 100, slab: 20, total: 1000, free: 900, used: 180, avail: 900},
		{name: "over its limit", limit: Some[uint64](200 << 20), current: 300, file: 400, total: 200, free: 0, used: 0, avail: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memNode(1000, 900, 0, 0, 0)
			s.Job = JobReading{
				Phase: JobPresent, MemLimit: tt.limit, MemCurrent: Some(tt.current << 20),
				File: Some(tt.file << 20), SlabReclaimable: Some(tt.slab << 20), Swap: Some[uint64](7 << 20),
			}
			m := Derive(nil, s, ScopeJob).Memory
			wantU(t, "total_mib", m.TotalMiB, tt.total)
			wantU(t, "free_mib", m.FreeMiB, tt.free)
			wantU(t, "used_mib", m.UsedMiB, tt.used)
			wantU(t, "available_mib", m.AvailableMiB, tt.avail)
			wantU(t, "swap_used_mib", m.SwapUsedMiB, 7)
			wantAbsent(t, "buffers_mib", m.BuffersMiB)
			// --scope node shows the node although there is a job.
			wantU(t, "free_mib of the node", Derive(nil, s, ScopeNode).Memory.FreeMiB, 900)
		})
	}
}

func TestScopeJobWithoutAJobIsTheNode(t *testing.T) {
	prev, cur := node(1, 0, 0, 0), node(2, 100, 0, 300)
	if a, b := DeriveScalars(prev, cur, ScopeJob), DeriveScalars(prev, cur, ScopeNode); a != b {
		t.Errorf("job scope %+v, node scope %+v", a, b)
	}
}

// The job has no network and no disk space of its own: these stay the node's.
// Its disk I/O is absent where it was not read, whatever the node did.
func TestJobScopeMixesAsDecided(t *testing.T) {
	prev, cur := everything(1), everything(2)
	cur.Node.NetRxBytes.Set(2 << 30)
	cur.Node.DiskReadBytes.Set(2 << 30)
	cur.Job.IOReadBytes.Clear()
	s := DeriveScalars(prev, cur, ScopeJob)
	wantU(t, "net_recv_bytes", s.NetRecvBytes, 1<<30)
	wantU(t, "disk space", s.SpaceTotal, 1<<30)
	wantAbsent(t, "disk_read_bytes", s.DiskReadBytes)
	wantU(t, "processes", s.Processes, 1<<20)
}

// The intervals of a run add up to the last reading minus the first, for any series of counters and any thinning of
// it.
func TestDifferencesTelescope(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		n := 2 + rng.IntN(30)
		series := make([]*Snapshot, n)
		series[0] = everything(1)
		for i := 1; i < n; i++ {
			s := everything(int64(i) + 1)
			grow(s, series[i-1], rng)
			series[i] = s
		}
		if round%2 == 0 { // thinned: the readings in between never happened
			kept := series[:1]
			for _, s := range series[1 : n-1] {
				if rng.IntN(2) == 0 {
					kept = append(kept, s)
				}
			}
			series = append(kept, series[n-1])
		}
		for _, scope := range []Scope{ScopeNode, ScopeJob} {
			checkSums(t, series, scope)
		}
	}
}

// counters are the fields of s that only grow.
func counters(s *Snapshot) []*Opt[uint64] {
	return []*Opt[uint64]{
		&s.Node.NetRxBytes, &s.Node.NetTxBytes, &s.Node.DiskReadBytes, &s.Node.DiskWriteBytes,
		&s.Job.CPUUsage, &s.Job.CPUUser, &s.Job.CPUSystem, &s.Job.IOReadBytes, &s.Job.IOWriteBytes,
	}
}

func grow(s, prev *Snapshot, rng *rand.Rand) {
	from := counters(prev)
	for i, p := range counters(s) {
		p.Set(from[i].Or(0) + rng.Uint64N(3_000_000))
	}
	c := prev.Node.CPU.Or(CPUTimes{})
	c.User += rng.Uint64N(100)
	c.Nice += rng.Uint64N(10)
	c.System += rng.Uint64N(100)
	c.Idle += rng.Uint64N(1000)
	s.Node.CPU.Set(c)
}

func checkSums(t *testing.T, series []*Snapshot, scope Scope) {
	t.Helper()
	var user, system, read, written, recv, sent uint64
	for i := 1; i < len(series); i++ {
		s := DeriveScalars(series[i-1], series[i], scope)
		user += s.UserMillis.Or(0)
		system += s.SystemMillis.Or(0)
		read += s.DiskReadBytes.Or(0)
		written += s.DiskWriteBytes.Or(0)
		recv += s.NetRecvBytes.Or(0)
		sent += s.NetSentBytes.Or(0)
	}
	whole := DeriveScalars(series[0], series[len(series)-1], scope)
	wantU(t, string(scope)+" user", whole.UserMillis, user)
	wantU(t, string(scope)+" system", whole.SystemMillis, system)
	wantU(t, string(scope)+" read", whole.DiskReadBytes, read)
	wantU(t, string(scope)+" written", whole.DiskWriteBytes, written)
	wantU(t, string(scope)+" received", whole.NetRecvBytes, recv)
	wantU(t, string(scope)+" sent", whole.NetSentBytes, sent)
}

// Absent readings lose nothing either, as long as the last one is there and each gap inherits the values before it.
func TestDifferencesTelescopeOverGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		origin := job(1, JobPending, 0, 0, 0)
		prev, truth := origin, everything(1)
		for _, p := range counters(truth) {
			p.Set(0)
		}
		var user, read uint64
		n := 2 + rng.IntN(20)
		for i := range n {
			next := everything(int64(i) + 2)
			grow(next, truth, rng)
			truth = next
			seen := *next
			seen.Job.ProcReadBytes.Clear() // they are not summed where the controller is on
			seen.Job.ProcWriteBytes.Clear()
			if i < n-1 {
				for _, p := range counters(&seen) {
					if rng.IntN(3) == 0 {
						p.Clear()
					}
				}
			}
			s := DeriveScalars(prev, &seen, ScopeJob)
			user += s.UserMillis.Or(0)
			read += s.DiskReadBytes.Or(0)
			seen.InheritCounters(prev)
			prev = &seen
		}
		wantU(t, "user", Some(user), truth.Job.CPUUser.Or(0)/1000)
		wantU(t, "read", Some(read), truth.Job.IOReadBytes.Or(0))
	}
}

func TestDeriveScalarsAllocatesNothing(t *testing.T) {
	prev, cur := everything(1), everything(2)
	var s Scalars
	if n := testing.AllocsPerRun(100, func() { s = DeriveScalars(prev, cur, ScopeJob) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { cur.InheritCounters(prev) }); n != 0 {
		t.Errorf("InheritCounters: %v allocations", n)
	}
	_ = s
}

func BenchmarkDeriveScalars(b *testing.B) {
	prev, cur := everything(1), everything(2)
	b.ReportAllocs()
	for b.Loop() {
		_ = DeriveScalars(prev, cur, ScopeJob)
	}
}
