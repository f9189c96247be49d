package ftdc

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// FuzzDecode: any input gives data and perhaps an error with a place in it. The same input in pieces gives the same
// data, which survive encoding.
func FuzzDecode(f *testing.F) {
	for _, file := range files(f) {
		f.Add(file)
		if len(file) > 3 {
			f.Add(file[:len(file)-3])
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		f.Add(encode(f, random(r)))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1<<12 {
			return // the readings of one datum are up to 192 times its bits
		}
		data, err := parse(bytes.NewReader(file))
		var syntax *SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset >= int64(len(file))) {
			t.Fatalf("an error without a place in the file: %v", err)
		}
		pieces, err2 := parse(iotest.HalfReader(bytes.NewReader(file)))
		if len(pieces) != len(data) || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("whole: %d data, %v; in pieces: %d data, %v", len(data), err, len(pieces), err2)
		}
		again, err := parse(bytes.NewReader(encode(t, data)))
		if err != nil || len(again) != len(data) {
			t.Fatalf("%d data encoded and decoded are %d, %v", len(data), len(again), err)
		}
		for i := range data {
			compare(t, i, withoutNaN(data[i].Readings), again[i].Readings)
		}
	})
}

func withoutNaN(all []Reading) (out []Reading) {
	for _, r := range all {
		if r.Value == r.Value {
			out = append(out, r)
		}
	}
	return out
}

// compare allows for the steps of 1e-9 that a writer leaves out.
func compare(t *testing.T, i int, want, got []Reading) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("datum %d has %d readings, want %d", i, len(got), len(want))
	}
	for k := range want {
		same := got[k].Value == want[k].Value || math.Abs(float64(got[k].Value)-float64(want[k].Value)) <= 1e-9*float64(i+2)
		if got[k].MetricName != want[k].MetricName || !same {
			t.Fatalf("datum %d: %v, want %v", i, got[k], want[k])
		}
	}
}

// FuzzEncode: what is encoded is what a plain writer of the format writes, and
// decodes to what it was.
func FuzzEncode(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed*seed, []byte("values in which not much changes"))
	}
	f.Fuzz(func(t *testing.T, a, b uint64, text []byte) {
		data := random(rand.New(rand.NewPCG(a, b)))
		for i := range data {
			for k := range data[i].Readings {
				if n := i + k; n+4 <= len(text) {
					v := math.Float32frombits(uint32(text[n])<<24 | uint32(text[n+1])<<16 | uint32(text[n+2])<<8)
					if v == v {
						data[i].Readings[k].Value = v
					}
				}
			}
		}
		file := encode(t, data)
		if want := plain(data); !bytes.Equal(file, want) {
			t.Fatalf("encoded %x\nwant %x", file, want)
		}
		got, err := parse(bytes.NewReader(file))
		if err != nil || len(got) != len(data) {
			t.Fatalf("%d of %d data, %v", len(got), len(data), err)
		}
		for i := range data {
			compare(t, i, data[i].Readings, got[i].Readings)
		}
	})
}
