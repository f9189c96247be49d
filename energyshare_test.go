package rt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
)

// Whatever the figures are, what jobs, idle and system have is the node's, and no
// job has more than its part.
func TestEnergySharesAddUp(t *testing.T) {
	check := func(node, idle, busy uint64, jobs []uint64, small bool) bool {
		if small { // figures as they are
			node, idle, busy = node%1e12, idle%1e12, busy%1e10
			for i := range jobs {
				jobs[i] %= 1e9
			}
		}
		s := ShareEnergy(node, idle, busy, jobs)
		left := node
		for _, part := range append([]uint64{s.Idle, s.System}, s.Jobs...) {
			if part > left {
				return false
			}
			left -= part
		}
		return left == 0 && len(s.Jobs) == len(jobs) && s.Idle == min(idle, node)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}

// Two jobs with three and one part of the CPU time have three and one part of the active energy. Each interval is
// right to a microjoule.
func TestEnergyThreeToOne(t *testing.T) {
	const intervals = 600
	r := rand.New(rand.NewPCG(1, 2))
	var three, one, idle, system, node uint64
	for range intervals {
		used := 100_000 + r.Uint64N(900_000)
		total := 50_000_000 + r.Uint64N(400_000_000)
		s := ShareEnergy(total, 50_000_000, 4*used+used/10, []uint64{3 * used, used})
		three, one = three+s.Jobs[0], one+s.Jobs[1]
		idle, system, node = idle+s.Idle, system+s.System, node+total
	}
	if three+one+idle+system != node {
		t.Errorf("%d + %d + %d + %d are not the node's %d", three, one, idle, system, node)
	}
	if ratio := float64(three) / float64(one); math.Abs(ratio-3) > 0.03 {
		t.Errorf("shared %g to 1, not 3 to 1", ratio)
	}
	if part := float64(three+one) / float64(node-idle); math.Abs(part-4/4.1) > 0.01*4/4.1 {
		t.Errorf("the jobs have %g of the active energy", part)
	}
}

func TestEnergyOfNobody(t *testing.T) {
	if s := ShareEnergy(100, 30, 0, nil); s.Idle != 30 || s.System != 70 {
		t.Errorf("%+v", s)
	}
	if s := ShareEnergy(100, 200, 10, []uint64{10}); s.Idle != 100 || s.Jobs[0] != 0 || s.System != 0 {
		t.Errorf("%+v", s)
	}
	if s := ShareEnergy(100, 0, 5, []uint64{10, 10}); s.Jobs[0] != 50 || s.Jobs[1] != 50 {
		t.Errorf("more than busy: %+v", s)
	}
	if s := ShareEnergy(100, 0, 5, []uint64{math.MaxUint64, 10}); s.Jobs[0] != 0 || s.System != 100 {
		t.Errorf("more than there can be: %+v", s)
	}
}

func TestEnergyBetween(t *testing.T) {
	domain := func(kind EnergyKind, name string, energy Opt[uint64]) EnergyReading {
		return EnergyReading{Source: "powercap", Domain: name, Kind: kind, Energy: energy}
	}
	at := func(boot int64, e ...EnergyReading) *Snapshot {
		s := &Snapshot{Boot: boot * 1e9, Energy: e}
		s.Node.CPU.Set(CPUTimes{User: uint64(boot) * 150, Idle: uint64(boot) * 50})
		s.Job.Phase = JobPresent
		s.Job.CPUUsage.Set(uint64(boot) * 1_000_000)
		return s
	}
	uj := func(v uint64) Opt[uint64] { return Some(v) }
	two := func(a, b, c Opt[uint64]) []EnergyReading {
		return []EnergyReading{domain(EnergyPackage, "package-0", a), domain(EnergyPackage, "package-1", b), domain(EnergyDRAM, "package-0/dram", c), domain(EnergyCore, "package-0/core", a)}
	}
	for name, tt := range map[string]struct {
		before, after []EnergyReading
		want          Opt[uint64]
		of            EnergyKind
	}{
		"packages and memory": {two(uj(1), uj(2), uj(3)), two(uj(11), uj(22), uj(33)), uj(60), EnergyPackage},
		"without memory":      {two(uj(1), uj(2), None[uint64]()), two(uj(11), uj(22), uj(33)), uj(30), EnergyPackage},
		"a package is gone":   {two(uj(1), uj(2), uj(3)), two(uj(11), None[uint64](), uj(33)), None[uint64](), ""},
		"the platform":        {append(two(uj(1), uj(2), uj(3)), domain(EnergyPlatform, "psys", uj(5))), append(two(uj(11), uj(22), uj(33)), domain(EnergyPlatform, "psys", uj(105))), uj(100), EnergyPlatform},
		"it fell":             {two(uj(1), uj(20), uj(3)), two(uj(11), uj(2), uj(33)), None[uint64](), ""},
		"the platform stood still": {append(two(uj(1), uj(2), uj(3)), domain(EnergyPlatform, "psys", uj(5))),
			append(two(uj(11), uj(22), uj(33)), domain(EnergyPlatform, "psys", None[uint64]())), uj(60), EnergyPackage},
		"two sources count the packages": {append(two(uj(1), uj(2), uj(3)), EnergyReading{Source: "hwmon", Domain: "package-0", Kind: EnergyPackage, Energy: uj(1)}),
			append(two(uj(11), uj(22), uj(33)), EnergyReading{Source: "hwmon", Domain: "package-0", Kind: EnergyPackage, Energy: uj(12)}), uj(60), EnergyPackage},
		"nothing": {nil, nil, None[uint64](), ""},
	} {
		u := EnergyBetween(at(10, tt.before...), at(11, tt.after...))
		if u.Node != tt.want || u.Of != tt.of || u.Busy != uj(1_500_000) || u.Job != uj(1_000_000) {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// Instructions go before CPU time where all CPUs counted them, and those that shared
// their counters are scaled.
func TestSharedByInstructions(t *testing.T) {
	counters := func(node, job, running uint64) []PerfReading {
		var list []PerfReading
		for cpu := range uint64(2) {
			list = append(list,
				PerfReading{Group: "core", CPU: cpu, Event: "cycles", Value: Some[uint64](1)},
				PerfReading{Group: "core", CPU: cpu, Event: "instructions", Value: Some(job), TimeEnabled: Some(2 * running), TimeRunning: Some(running)},
				PerfReading{Group: "node", CPU: cpu, Event: "instructions", Value: Some(node), TimeEnabled: Some(running), TimeRunning: Some(running)})
		}
		return list
	}
	var a, b Snapshot
	a.Perf, b.Perf = counters(1000, 100, 10), counters(5000, 600, 20)
	a.Node.CPU.Set(CPUTimes{User: 100})
	b.Node.CPU.Set(CPUTimes{User: 300})
	a.Job.Phase, b.Job.Phase = JobPresent, JobPresent
	a.Job.CPUUsage.Set(0)
	b.Job.CPUUsage.Set(1_500_000)
	check := func(what string, all, job uint64, by EnergyMethod) {
		t.Helper()
		use := EnergyBetween(&a, &b)
		if gotAll, gotJob, gotBy := use.Shared(); gotAll != all || gotJob != job || gotBy != by {
			t.Errorf("%s: %d of %d by %q, want %d of %d by %q", what, gotJob, gotAll, gotBy, job, all, by)
		}
	}
	check("counted", 2*4000, 2*2*500, ByInstructions)
	for _, s := range []*Snapshot{&a, &b} { // the node counts them by another name too
		for _, p := range slices.Clone(s.Perf) {
			if p.Group == "node" {
				p.Event = "INSTRUCTIONS_RETIRED"
				s.Perf = append(s.Perf, p)
			}
		}
	}
	check("by two names", 2*4000, 2*2*500, ByInstructions)
	b.Perf = counters(5000, 600, 20)
	for i := range b.Perf {
		b.Perf[i].Group = map[string]string{"core": "core", "node": "rapl"}[b.Perf[i].Group]
	}
	check("of the node not counted", 2_000_000, 1_500_000, ByCPUTime)
	b.Perf = counters(5000, 600, 20)
	b.Perf[4].Value.Clear()
	check("one CPU stood down", 2_000_000, 1_500_000, ByCPUTime)
	b.Perf = counters(5000, 600, 20)
	b.Perf[4].TimeRunning = a.Perf[4].TimeRunning
	check("never on the counters", 2_000_000, 1_500_000, ByCPUTime)
	b.Perf = counters(5000, 50, 20)
	check("opened again", 2_000_000, 1_500_000, ByCPUTime)
	b.Job.CPUUsage.Clear()
	check("neither", 0, 0, "")
}
