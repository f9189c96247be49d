package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// program is the memory that the runs of one program with one input need, in GiB.
type program func(*rand.Rand) float64

func constant(gib float64) program { return func(*rand.Rand) float64 { return gib } }

// about is a program whose runs differ by at most this part.
func about(gib, part float64) program {
	return func(r *rand.Rand) float64 { return gib * (1 + float64(part*(2*r.Float64()-1))) }
}

func logNormal(gib, sigma float64) program {
	return func(r *rand.Rand) float64 { return gib * math.Exp(float64(sigma*r.NormFloat64())) }
}

// mixtures are what the comparable runs of a simulation are: one program, or several in random order.
var mixtures = []struct {
	name     string
	isInDoc  bool
	programs []program
}{
	{"constant", false, []program{constant(4)}},
	{"normal", true, []program{func(r *rand.Rand) float64 { return max(0.1, 4+float64(0.4*r.NormFloat64())) }}},
	{"uniform, 1 to 8", false, []program{func(r *rand.Rand) float64 { return 1 + float64(7*r.Float64()) }}},
	{"log-normal", true, []program{logNormal(4, 1)}},
	{"10 % of 16, else 2", true, []program{func(r *rand.Rand) float64 {
		if r.Float64() < 0.1 {
			return 16 + r.Float64()
		}
		return 2 + float64(0.1*r.Float64())
	}}},
	{"2: 1 and 25, ±2 %", true, []program{about(1, 0.02), about(25, 0.02)}},
	{"2: 1 and 20, log-normal", false, []program{logNormal(1, 0.3), logNormal(20, 0.3)}},
	{"3: 1, 1.6 and 9, ±10 %", true, []program{about(1, 0.1), about(1.6, 0.1), about(9, 0.1)}},
	{"4: 0.1, 2, 2.6 and 40", false, []program{constant(0.1), constant(2), constant(2.6), constant(40)}},
	{"5: 1 to 2.1, ±1 %", true, []program{about(1, 0.01), about(1.2, 0.01), about(1.44, 0.01), about(1.73, 0.01), about(2.07, 0.01)}},
	{"5: 1 to 16, ±5 %", true, []program{about(1, 0.05), about(2, 0.05), about(4, 0.05), about(8, 0.05), about(16, 0.05)}},
}

// need is what nearly all runs of a program need at most.
func (p program) need(r *rand.Rand) (top float64) {
	for range 1000 {
		top = max(top, p(r))
	}
	return top
}

// simulated counts what advice from histories of so many runs does to the next run.
type simulated struct {
	advised, same, any, twice int
	promised                  float64
}

func simulate(programs []program, n, histories int, r *rand.Rand) (c simulated) {
	var needs []float64
	for _, p := range programs {
		needs = append(needs, p.need(r))
	}
	values := make([]sampleValue, n)
	for range histories {
		last := 0
		for i := range values {
			last = r.IntN(len(programs))
			gib := programs[last](r)
			needs[last] = max(needs[last], gib)
			values[i] = sampleValue{value: gib * (1 << 30), isOwn: i == n-1}
		}
		same, other := programs[last](r), programs[r.IntN(len(programs))](r)
		p := predict(values, minRAMSpace)
		if p.rising {
			continue
		}
		c.advised++
		c.promised += p.risk()
		request := float64(roundMemory(p.request())) / (1 << 30)
		for _, count := range []struct {
			of *int
			is bool
		}{{&c.same, same > request}, {&c.any, other > request}, {&c.twice, request > 2*needs[last]}} {
			if count.is {
				*count.of++
			}
		}
	}
	c.promised /= float64(c.advised)
	return c
}

// At most the promised share of the next jobs is killed, whether they are of the same program or of an earlier
// namesake. There are 5,000 histories of each mixture and length, with the rounding and the trend test of the advice.
// With about ten runs of each program no request is above twice what its program needs. docs/advice.md has some of
// them.
func TestAdviceKeepsItsPromise(t *testing.T) {
	const histories, enoughRuns = 5000, 50
	var table strings.Builder
	table.WriteString("| programs, GiB | runs | promised | killed, same program | killed, any | above twice the need | no number |\n|---|---|---|---|---|---|---|\n")
	for d, m := range mixtures {
		for _, n := range []int{1, 2, 5, 10, enoughRuns} {
			c := simulate(m.programs, n, histories, rand.New(rand.NewPCG(uint64(d), uint64(n))))
			part := func(of int) float64 { return float64(of) / float64(c.advised) }
			isDocumented := m.isInDoc && (n == 5 || n == enoughRuns)
			if isDocumented {
				fmt.Fprintf(&table, "| %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n", m.name, n, c.promised*100, part(c.same)*100, part(c.any)*100, part(c.twice)*100, 100-float64(c.advised)/histories*100)
			}
			if max(part(c.same), part(c.any)) > c.promised {
				t.Errorf("%s, %d runs: %.4f killed of the same program, %.4f of any, promised %.4f", m.name, n, part(c.same), part(c.any), c.promised)
			}
			if n == enoughRuns && c.twice > 0 {
				t.Errorf("%s: %d of %d requests are above twice the need", m.name, c.twice, c.advised)
			}
		}
	}
	compareTable(t, table.String())
}

// compareTable compares a table with the one in docs/advice.md.
func compareTable(t *testing.T, table string) {
	t.Helper()
	path := filepath.Join("..", "docs", "advice.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	isSame := strings.Contains(string(doc), table)
	if runtime.GOARCH == "amd64" && !isSame { // others round the draws differently
		t.Errorf("%s does not have this table:\n%s", path, table)
	}
}

func samples(values ...float64) (list []sampleValue) {
	for i, v := range values {
		list = append(list, sampleValue{value: v, isOwn: i == len(values)-1})
	}
	return list
}

// Values fall apart at a gap, and the part of the job's own value is used. Tasks of one array are not separated.
func TestSampleIsSplitAtGaps(t *testing.T) {
	for _, tt := range []struct {
		name     string
		values   []sampleValue
		highest  float64
		n, above int
	}{
		{"alone", samples(26.7), 26.7, 1, 0},
		{"another program before", samples(666, 26.7, 26.6), 26.7, 2, 1},
		{"the larger of the two", samples(26.7, 26.6, 666), 666, 1, 0},
		{"noise", samples(300, 200, 280), 300, 3, 0},
		{"a chain", samples(100, 130, 170, 220, 280, 100), 280, 6, 0},
		{"near, but far for their noise", samples(100, 101, 102, 125, 126, 127, 101), 102, 4, 3},
		{"below what matters", samples(0, 2, 12, 29, 3), 29, 5, 0},
		{"equal values", samples(64, 64, 64, 64, 64), 64, 5, 0},
		{"a task of the same array", []sampleValue{{value: 666, isOwn: true}, {value: 5000}, {value: 26, isOwn: true}}, 666, 2, 1},
		{"a bound", []sampleValue{{value: 60, isBound: true}, {value: 600, isBound: true}, {value: 50, isOwn: true}}, 50, 1, 1},
	} {
		p := predict(tt.values, 30)
		if p.highest != tt.highest || p.n != tt.n || p.above != tt.above {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
	p := predict([]sampleValue{{value: 60, isBound: true}, {value: 50, isOwn: true}}, 30)
	if p.bound != 60 || p.request() != 90 {
		t.Errorf("with a bound: %+v", p)
	}
}

// With a trend the highest value of the past does not bound the next one, and the test detects the
// trend.
func TestTrendIsDetected(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		rising bool
	}{
		{"one", []float64{1}, false},
		{"too few to know", []float64{1, 2, 3}, false},
		{"four in order", []float64{1, 2, 3, 4}, true},
		{"constant", []float64{2, 2, 2, 2, 2, 2, 2, 2}, false},
		{"falling", []float64{6, 5, 4, 3, 2, 1}, false},
		{"no order", []float64{3, 1, 4, 1, 5, 2, 3, 2}, false},
		{"with steps back", []float64{1, 2, 1.5, 3, 2.5, 4, 5, 4.5}, true},
		{"two levels", []float64{1, 1, 1, 1, 2, 2, 2, 2}, false}, // the sample is the second one
		{"twice in each run", []float64{1, 2, 4, 8}, true},
	} {
		if got := predict(samples(tt.values...), 0.1).rising; got != tt.rising {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	// A growth of 5 % from run to run with 2 % of noise would kill nearly every second next job.
	r := rand.New(rand.NewPCG(1, 2))
	const histories = 2000
	found := 0
	for range histories {
		values := make([]float64, 10)
		for i := range values {
			values[i] = 100 * math.Pow(1.05, float64(i)) * (1 + float64(0.02*r.NormFloat64()))
		}
		if predict(samples(values...), 0.1).rising {
			found++
		}
	}
	if part := float64(found) / histories; part < 0.99 {
		t.Errorf("found in %.3f of the histories", part)
	}
}

// The exact and the normal distribution agree at the limit between them.
func TestScoreAtLeast(t *testing.T) {
	if got := scoreAtLeast(4, 6); math.Abs(got-1.0/24) > 1e-12 {
		t.Errorf("4 values in order: %v", got)
	}
	if got := scoreAtLeast(3, -3); math.Abs(got-1) > 1e-12 {
		t.Errorf("all orders: %v", got)
	}
	if a, b := scoreAtLeast(30, 95), scoreAtLeast(31, 100); math.Abs(a-b) > 0.005 {
		t.Errorf("exact %v, normal %v", a, b)
	}
}
