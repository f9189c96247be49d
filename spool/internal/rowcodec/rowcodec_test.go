package rowcodec

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// randomRows returns rows of every kind of value, and a key for them.
func randomRows(r *rand.Rand) (int, [][]driver.Value) {
	width := 1 + r.IntN(8)
	key := None
	if r.IntN(2) == 0 {
		key = r.IntN(width)
	}
	rows := make([][]driver.Value, 1+r.IntN(60))
	for i := range rows {
		for c := range width {
			rows[i] = append(rows[i], randomValue(r, c, i))
		}
	}
	return key, rows
}

func randomValue(r *rand.Rand, column, row int) driver.Value {
	switch r.IntN(12) {
	case 0:
		return nil
	case 1:
		return []driver.Value{int64(math.MinInt64), int64(math.MaxInt64), 0.0, math.Copysign(0, -1), math.Inf(1), math.MaxFloat64, 1e15 / 7}[r.IntN(7)]
	case 2:
		return r.Float64() * 100
	case 3:
		return float64(r.IntN(100_000)) / 1000
	case 4:
		return "text \x00\xff"[:r.IntN(8)]
	case 5:
		blob := make([]byte, r.IntN(20))
		for i := range blob {
			blob[i] = byte(r.IntN(256))
		}
		return blob
	case 6:
		return r.Int64() >> r.IntN(64)
	}
	return int64(column*1000 + row*r.IntN(50))
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		key, rows := randomRows(r)
		block := Append([]byte("head"), key, rows)[4:]
		got, err := Decode(block, len(rows), len(rows[0]))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(bitwise(got), bitwise(rows)) {
			t.Fatalf("seed %d: %v, want %v", seed, got, rows)
		}
	}
}

// bitwise replaces floats, so that the sign of zero counts.
func bitwise(rows [][]driver.Value) [][]driver.Value {
	for _, row := range rows {
		for i, v := range row {
			if f, ok := v.(float64); ok {
				row[i] = [1]uint64{math.Float64bits(f)}
			}
		}
	}
	return rows
}

// The noise of a counter takes a byte per value, and the differences of one that grows evenly none.
// The kinds of the values take one each, and so do here the numbers of the devices. Everything else
// is zeros, which a compression reduces to nothing.
func TestSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var noisy, even [][]driver.Value
	for i := range int64(1000) {
		device := i % 3
		noisy = append(noisy, []driver.Value{device, device<<40 + 4096*r.Int64N(100)})
		even = append(even, []driver.Value{i * 1e6})
	}
	for _, c := range []struct {
		name  string
		block []byte
		kinds int
		most  int // bytes that are not 0
	}{{"noise", Append(nil, 0, noisy), 2000, 1700}, {"even steps", Append(nil, None, even), 1000, 20}} {
		if n := len(c.block) - bytes.Count(c.block, []byte{0}) - c.kinds; n > c.most {
			t.Errorf("%s: 1000 rows take %d bytes that are not 0", c.name, n)
		}
	}
}

// A block that a decoder cannot follow is refused.
func TestBadBlocks(t *testing.T) {
	rows := [][]driver.Value{{int64(1), int64(2)}, {int64(1), "x"}}
	good := Append(nil, 0, rows)
	for name, c := range map[string]struct {
		block []byte
		rows  int
		width int
	}{
		"empty":            {nil, 2, 2},
		"cut in the body":  {good[:5], 2, 2},
		"cut in the texts": {good[:len(good)-1], 2, 2},
		"another byte":     {append(bytes.Clone(good), 0), 2, 2},
		"no rows":          {good, 0, 2},
		"too many rows":    {good, MaxValues, 2},
		"fewer rows":       {good, 1, 2},
		"more rows":        {good, 1000, 2},
		"key beyond":       {append([]byte{4}, good[1:]...), 2, 2},
		"no such key":      {append([]byte{3}, good[1:]...), 2, 2},
		"unknown kind":     {append([]byte{0, numKinds}, good[2:]...), 2, 2},
		"3 differences":    {append([]byte{0, isInt, isInt, isInt, isInt, 3, 1, 1}, make([]byte, 40)...), 2, 2},
		"9 bytes":          {append([]byte{0, isInt, isInt, isInt, isInt, 0, 1, 9}, make([]byte, 40)...), 2, 2},
		"long text":        {[]byte{1, isText, 0, 1, 1, 20, 'x'}, 1, 1},
		"negative text":    {[]byte{1, isText, 0, 1, 1, 1, 'x'}, 1, 1},
	} {
		if got, err := Decode(c.block, c.rows, c.width); !errors.Is(err, ErrBlock) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Any bytes decode within the limits, or do not; what decodes can be encoded.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(20) {
		key, rows := randomRows(rand.New(rand.NewPCG(seed, 3)))
		f.Add(Append(nil, key, rows), uint16(len(rows)), uint8(len(rows[0])))
	}
	f.Fuzz(func(t *testing.T, block []byte, n uint16, width uint8) {
		rows, err := Decode(block, int(n), int(width))
		if err != nil {
			if !errors.Is(err, ErrBlock) {
				t.Fatal(err)
			}
			return
		}
		size := 0
		for _, row := range rows {
			for _, v := range row {
				switch v := v.(type) {
				case string:
					size += len(v)
				case []byte:
					size += len(v)
				}
			}
		}
		if size > len(block) {
			t.Fatalf("%d bytes of texts", size)
		}
		again, err := Decode(Append(nil, None, rows), int(n), int(width))
		if err != nil || !reflect.DeepEqual(bitwise(again), bitwise(rows)) {
			t.Fatalf("%v after %v: %v", again, rows, err)
		}
	})
}
