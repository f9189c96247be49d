package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/resource-tracker/rt"
)

// Whatever the figures are, idle and the job have no more than the node, and the job no more than its part.
func TestEnergySharesAddUp(t *testing.T) {
	check := func(node, idle, busy, job uint64, small bool) bool {
		if small { // figures as they are
			node, idle, busy, job = node%1e12, idle%1e12, busy%1e10, job%1e9
		}
		ofIdle, ofJob := ShareEnergy(node, idle, busy, job)
		part := 1.0
		if busy > job {
			part = float64(job) / float64(busy)
		}
		active := float64(node - ofIdle)
		return ofIdle == min(idle, node) && ofJob <= node-ofIdle && float64(ofJob) <= active*part*(1+1e-9)+1
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
	var three, one, active uint64
	for range intervals {
		used := 100_000 + r.Uint64N(900_000)
		total := 50_000_000 + r.Uint64N(400_000_000)
		idle, ofThree := ShareEnergy(total, 50_000_000, 4*used+used/10, 3*used)
		_, ofOne := ShareEnergy(total, 50_000_000, 4*used+used/10, used)
		three, one, active = three+ofThree, one+ofOne, active+total-idle
	}
	if ratio := float64(three) / float64(one); math.Abs(ratio-3) > 0.03 {
		t.Errorf("shared %g to 1, not 3 to 1", ratio)
	}
	if part := float64(three+one) / float64(active); math.Abs(part-4/4.1) > 0.01*4/4.1 {
		t.Errorf("the jobs have %g of the active energy", part)
	}
}

func TestEnergyOfNobody(t *testing.T) {
	for name, tt := range map[string]struct{ idle, busy, job, ofIdle, ofJob uint64 }{
		"no job":                 {30, 0, 0, 30, 0},
		"idle is more than used": {200, 10, 10, 100, 0},
		"more than busy":         {0, 5, 10, 0, 100},
		"more than there can be": {0, 5, math.MaxUint64, 0, 100},
		"a half":                 {0, 20, 10, 0, 50},
	} {
		if idle, job := ShareEnergy(100, tt.idle, tt.busy, tt.job); idle != tt.ofIdle || job != tt.ofJob {
			t.Errorf("%s: idle %d, job %d", name, idle, job)
		}
	}
}

func TestEnergyBetween(t *testing.T) {
	domain := func(kind rt.EnergyKind, name string, energy rt.Opt[uint64]) rt.EnergyReading {
		return rt.EnergyReading{Source: "powercap", Domain: name, Kind: kind, Energy: energy}
	}
	at := func(boot int64, e ...rt.EnergyReading) *rt.Snapshot {
		s := &rt.Snapshot{Boot: boot * 1e9, Energy: e}
		s.Node.CPU.Set(rt.CPUTimes{User: uint64(boot) * 150, Idle: uint64(boot) * 50})
		s.Job.Phase = rt.JobPresent
		s.Job.CPUUsage.Set(uint64(boot) * 1_000_000)
		return s
	}
	uj := func(v uint64) rt.Opt[uint64] { return rt.Some(v) }
	two := func(a, b, c rt.Opt[uint64]) []rt.EnergyReading {
		return []rt.EnergyReading{domain(rt.EnergyPackage, "package-0", a), domain(rt.EnergyPackage, "package-1", b), domain(rt.EnergyDRAM, "package-0/dram", c), domain(rt.EnergyCore, "package-0/core", a)}
	}
	for name, tt := range map[string]struct {
		before, after []rt.EnergyReading
		want          rt.Opt[uint64]
		of            rt.EnergyKind
	}{
		"packages and memory": {two(uj(1), uj(2), uj(3)), two(uj(11), uj(22), uj(33)), uj(60), rt.EnergyPackage},
		"without memory":      {two(uj(1), uj(2), rt.None[uint64]()), two(uj(11), uj(22), uj(33)), uj(30), rt.EnergyPackage},
		"a package is gone":   {two(uj(1), uj(2), uj(3)), two(uj(11), rt.None[uint64](), uj(33)), rt.None[uint64](), ""},
		"the platform":        {append(two(uj(1), uj(2), uj(3)), domain(rt.EnergyPlatform, "psys", uj(5))), append(two(uj(11), uj(22), uj(33)), domain(rt.EnergyPlatform, "psys", uj(105))), uj(100), rt.EnergyPlatform},
		"it fell":             {two(uj(1), uj(20), uj(3)), two(uj(11), uj(2), uj(33)), rt.None[uint64](), ""},
		"the platform stood still": {append(two(uj(1), uj(2), uj(3)), domain(rt.EnergyPlatform, "psys", uj(5))),
			append(two(uj(11), uj(22), uj(33)), domain(rt.EnergyPlatform, "psys", rt.None[uint64]())), uj(60), rt.EnergyPackage},
		"two sources count the packages": {append(two(uj(1), uj(2), uj(3)), rt.EnergyReading{Source: "hwmon", Domain: "package-0", Kind: rt.EnergyPackage, Energy: uj(1)}),
			append(two(uj(11), uj(22), uj(33)), rt.EnergyReading{Source: "hwmon", Domain: "package-0", Kind: rt.EnergyPackage, Energy: uj(12)}), uj(60), rt.EnergyPackage},
		"nothing": {nil, nil, rt.None[uint64](), ""},
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
	counters := func(node, job, running uint64) []rt.PerfReading {
		var list []rt.PerfReading
		for cpu := range uint64(2) {
			list = append(list,
				rt.PerfReading{Group: "core", CPU: cpu, Event: "cycles", Value: rt.Some[uint64](1)},
				rt.PerfReading{Group: "core", CPU: cpu, Event: "instructions", Value: rt.Some(job), TimeEnabled: rt.Some(2 * running), TimeRunning: rt.Some(running)},
				rt.PerfReading{Group: "node", CPU: cpu, Event: "instructions", Value: rt.Some(node), TimeEnabled: rt.Some(running), TimeRunning: rt.Some(running)})
		}
		return list
	}
	var a, b rt.Snapshot
	a.Perf, b.Perf = counters(1000, 100, 10), counters(5000, 600, 20)
	a.Node.CPU.Set(rt.CPUTimes{User: 100})
	b.Node.CPU.Set(rt.CPUTimes{User: 300})
	a.Job.Phase, b.Job.Phase = rt.JobPresent, rt.JobPresent
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
	for _, s := range []*rt.Snapshot{&a, &b} { // the node counts them by another name too
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
