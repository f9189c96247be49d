package cgroup

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/resource-tracker/rt"
)

func balanced(usage, user, system uint64, last cpuTime) cpuTime {
	u, a, b := rt.Some(usage), rt.Some(user), rt.Some(system)
	cpuFigures{Usage: &u, User: &a, System: &b}.Balance(last)
	return cpuTimeOf(u, a, b)
}

// User and system time are scaled to the usage, and neither falls.
func TestBalance(t *testing.T) {
	for _, tt := range []struct {
		name                string
		usage, user, system uint64
		last, want          cpuTime
	}{
		{"exact", 30, 20, 10, cpuTime{}, cpuTime{30, 20, 10}},
		{"too much was sampled", 3003, 596, 3388, cpuTime{}, cpuTime{3003, 450, 2553}},
		{"too little was sampled", 4003, 2000, 815, cpuTime{}, cpuTime{4003, 2845, 1158}},
		{"nothing was sampled", 900, 0, 0, cpuTime{}, cpuTime{900, 900, 0}},
		{"nothing was sampled again", 900, 0, 0, cpuTime{500, 300, 200}, cpuTime{900, 700, 200}},
		{"only system time", 900, 0, 10, cpuTime{}, cpuTime{900, 0, 900}},
		{"the ratio of before is not undone", 1010, 10, 10, cpuTime{1000, 900, 100}, cpuTime{1010, 900, 110}},
		{"nor the ratio to system time", 1010, 10, 0, cpuTime{1000, 100, 900}, cpuTime{1010, 110, 900}},
		{"the counter began again", 100, 50, 50, cpuTime{1000, 900, 100}, cpuTime{100, 50, 50}},
		{"years", 1 << 62, 3 << 60, 3 << 60, cpuTime{}, cpuTime{1 << 62, 1 << 61, 1 << 61}},
		{"impossible", 7, math.MaxUint64, math.MaxUint64, cpuTime{}, cpuTime{7, 7, 0}},
	} {
		if got := balanced(tt.usage, tt.user, tt.system, tt.last); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestBalanceOfAbsentFigures(t *testing.T) {
	for absent := range 3 {
		f := [3]rt.Opt[uint64]{rt.Some[uint64](100), rt.Some[uint64](7), rt.Some[uint64](5)}
		f[absent].Clear()
		was := f
		cpuFigures{Usage: &f[0], User: &f[1], System: &f[2]}.Balance(cpuTime{})
		if f != was {
			t.Errorf("without figure %d: %v became %v", absent, was, f)
		}
	}
}

// Whatever the kernel samples, each reading adds up and no part falls.
func TestBalanceOfManyReadings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var usage, user, system uint64
	var last cpuTime
	for range 100_000 {
		usage += rng.Uint64N(20_000)
		user += rng.Uint64N(3) * 10_000
		system += rng.Uint64N(3) * 10_000
		now := balanced(usage, user, system, last)
		if now.User+now.System != int64(usage) || now.User < last.User || now.System < last.System {
			t.Fatalf("usage %d, user %d, system %d after %v: %v", usage, user, system, last, now)
		}
		last = now
	}
}
