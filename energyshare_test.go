package rt

import (
	"math"
	"math/rand/v2"
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

// Two jobs with three and one part of the CPU time have three and one part of the
// active energy, interval by interval, to less than a microjoule each.
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
		"nothing":             {nil, nil, None[uint64](), ""},
	} {
		u := EnergyBetween(at(10, tt.before...), at(11, tt.after...))
		if u.Node != tt.want || u.Of != tt.of || u.Busy != uj(1_500_000) || u.Job != uj(1_000_000) {
			t.Errorf("%s: %+v", name, u)
		}
	}
}
