package spool

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCoresComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var cur, decoded, prev []core
	for i := range 500 {
		if i%50 == 0 { // cores come and go
			cur = cur[:0]
			for cpu := range 1 + rng.IntN(40) {
				cur = append(cur, core{cpu * 2, rng.Uint64N(1e9), math.MaxUint32 * 1000})
			}
		}
		for c := range cur {
			busy := rng.Uint64N(101)
			cur[c].Busy += busy
			cur[c].Total += 100 + rng.Uint64N(2)
		}
		switch {
		case i%77 == 0:
			cur[0].Busy = 1 // set back
		case i%91 == 0:
			cur[0].Total -= 5000 // iowait may fall
		case i%97 == 0:
			cur[0].Busy, cur[0].Total = math.MaxUint64, math.MaxUint64
		}
		row := appendCores(nil, prev, cur)
		var err error
		if decoded, err = decodeCores(decoded, row); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		if !slices.Equal(decoded, cur) {
			t.Fatalf("row %d came back as\n%v, want\n%v", i, decoded, cur)
		}
		prev = append(prev[:0], cur...)
	}
}

func TestCoresTakeLessThanTwoBytesEach(t *testing.T) {
	for name, passed := range map[string]uint64{"1 s": 100, "10 s": 1000} {
		prev := make([]core, 128)
		cur := make([]core, 128)
		for i := range cur {
			prev[i] = core{i, 1 << 30, 1 << 33}
			cur[i] = core{i, 1<<30 + uint64(i)*passed/128, 1<<33 + passed + uint64(i%3) - 1}
		}
		if n := len(appendCores(nil, prev, cur)); n > 2*128 {
			t.Errorf("%s: %d bytes for 128 cores", name, n)
		}
	}
}

func FuzzDecodeCores(f *testing.F) {
	full := []core{{0, 10, 100}, {3, 20, 200}}
	later := []core{{0, 15, 200}, {3, 20, 301}}
	f.Add(appendCores(nil, nil, full))
	f.Add(appendCores(nil, full, later))
	f.Add([]byte{0})
	f.Add([]byte{101, 4, 3, 9})
	f.Add([]byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1})
	f.Fuzz(func(t *testing.T, row []byte) {
		got, err := decodeCores(slices.Clone(full), row)
		if err != nil {
			return
		}
		again, err := decodeCores(nil, appendCores(nil, nil, got))
		if err != nil || len(got) != len(again) || len(got) > 0 && !slices.Equal(got, again) {
			t.Errorf("%v comes back as %v, %v", got, again, err)
		}
	})
}
