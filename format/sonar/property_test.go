package sonar

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const rounds = 150

// random makes values that a version can hold.
type random struct{ *rand.Rand }

// integer is often zero, and often at an end of what is allowed.
func (r random) integer() uint64 {
	switch r.IntN(5) {
	case 0, 1:
		return 0
	case 2:
		return maxInteger
	case 3:
		return r.Uint64() >> 12
	}
	return r.Uint64N(100)
}

func (r random) float() float64 {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return float64(float32(r.ExpFloat64() * 1e6))
	case 2:
		return r.Float64() / 1e9
	}
	return float64(r.IntN(10000)) / 10
}

func (r random) text(empty bool) string {
	words := []string{"a", "=", "é", `"`, ",", "|", "v=1", " ", "\\", "none", "日本", "'", "{", "\u2028"}
	s := ""
	for range r.IntN(5) {
		s += words[r.IntN(len(words))]
	}
	if s == "" && !empty {
		return "x"
	}
	return s
}

func (r random) time() time.Time {
	t := time.Unix(r.Int64N(1<<33), 0)
	return t.In(zone(60 * (r.IntN(28*60) - 14*60)))
}

func (r random) gpuSet() GPUSet {
	switch r.IntN(3) {
	case 0:
		return GPUSet{Unknown: true}
	case 1:
		var g GPUSet
		for range 1 + r.IntN(4) {
			g.Indices = append(g.Indices, r.Uint32N(1<<31))
		}
		return g
	}
	return GPUSet{}
}

func (r random) gpus() []GPU {
	var list []GPU
	for range r.IntN(4) {
		g := GPU{}
		for _, c := range gpuColumns {
			if p, ok := c.at(&g).(*uint64); ok {
				*p = r.integer()
			}
		}
		if r.IntN(3) == 0 {
			g = GPU{} // nothing is known about it
		}
		g.Mode, g.Perf = []string{"", "Exclusive", `a,"b`}[r.IntN(3)], []string{"", "P8"}[r.IntN(2)]
		list = append(list, g)
	}
	return list
}

func (r random) load() []uint64 {
	var list []uint64
	for range r.IntN(5) {
		list = append(list, r.Uint64()>>r.IntN(64))
	}
	return list
}

// sample has the fields of its version alone.
func (r random) sample(v string) Sample {
	s := Sample{
		Version: v, Time: r.time(), Host: r.text(false), User: r.text(false), Cmd: r.text(false), Job: r.integer(),
		CPUPct: r.float(), CPUKiB: r.integer(), GPUs: r.gpuSet(), GPUPct: r.float(), GPUMemPct: r.float(), GPUKiB: r.integer(),
	}
	since := func(minor int) bool { return minorOf(v) >= minor }
	if !since(10) {
		s.Cores = r.integer()
	}
	if since(8) && !since(10) {
		s.MemTotalKiB = r.integer()
	}
	if since(7) {
		s.PID, s.RolledUp, s.CPUTimeSec = r.integer(), r.integer(), r.integer()
	} else {
		s.Time = time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()
		slices.Sort(s.GPUs.Indices)
		s.GPUs.Indices = slices.Compact(s.GPUs.Indices)
		for i := range s.GPUs.Indices {
			s.GPUs.Indices[i] = uint32(i * 7)
		}
	}
	if since(8) {
		s.RSSAnonKiB = r.integer()
	}
	if since(11) {
		s.PPID = r.integer()
	}
	if since(12) {
		s.Load = r.load()
	}
	if since(13) {
		s.GPUInfo = r.gpus()
	}
	return s
}

var sameTime = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b time.Time) bool {
	_, x := a.Zone()
	_, y := b.Zone()
	return a.Equal(b) && x == y
})}

func TestSampleRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(1, 2))}
	for _, v := range []string{"0.6.0", "0.7.0", "0.8.1", "0.9.0", "0.10.0", "0.11.2", "0.12.0", "0.13.0", "1.0.0"} {
		for range rounds {
			want := r.sample(v)
			line, err := appendAs(nil, &want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]Record{&want}, all(t, line), sameTime); d != "" {
				t.Fatalf("%s(-want +got):\n%s", line, d)
			}
		}
	}
}

func TestSamplesJSONRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	for range rounds {
		head := r.sample(Version)
		var want []Record
		var samples []Sample
		for i := range 1 + r.IntN(3) {
			s := r.sample(Version)
			s.Version, s.Time, s.Host, s.Load, s.GPUInfo = head.Version, head.Time, head.Host, nil, nil
			if i == 0 {
				s.Load, s.GPUInfo = head.Load, head.GPUInfo
			}
			samples, want = append(samples, s), append(want, &s)
		}
		out, err := AppendJSON(nil, &head, samples)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, all(t, out), sameTime); d != "" {
			t.Fatalf("%s(-want +got):\n%s", out, d)
		}
	}
}

func TestSysinfoRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(5, 6))}
	for range rounds {
		want := &Sysinfo{
			Timestamp: r.time(), Hostname: r.text(false), Description: r.text(true),
			CPUCores: r.integer(), MemGB: r.integer(), GPUCards: r.integer(), GPUMemGB: r.integer(),
		}
		for range r.IntN(4) {
			c := Card{}
			for _, column := range cardColumns {
				switch p := column.at(&c).(type) {
				case *uint64:
					*p = r.integer()
				case *string:
					*p = r.text(true)
				}
			}
			want.GPUInfo = append(want.GPUInfo, c)
		}
		for _, json := range []bool{false, true} {
			out, err := encodeAll([]Record{want}, json)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]Record{want}, all(t, out), sameTime); d != "" {
				t.Fatalf("%s(-want +got):\n%s", out, d)
			}
		}
	}
}

func TestSlurmRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(7, 8))}
	for range rounds {
		var want []Record
		for range 1 + r.IntN(3) {
			j := &JobRecord{Version: Version}
			for _, p := range j.fields() {
				*p = r.text(true)
			}
			j.JobID = r.text(false)
			want = append(want, j)
		}
		failure := []Record{&Failure{Version: Version, Message: r.text(false), Timestamp: r.time()}}
		for _, json := range []bool{false, true} {
			for _, records := range [][]Record{want, failure} {
				out, err := encodeAll(records, json)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(records, all(t, out), sameTime); d != "" {
					t.Fatalf("%s(-want +got):\n%s", out, d)
				}
			}
		}
	}
}
