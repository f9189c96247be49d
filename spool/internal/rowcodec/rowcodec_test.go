package rowcodec

import (
	"database/sql/driver"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// randomRows returns rows of every kind of value, and a plan for them.
func randomRows(r *rand.Rand) (Plan, [][]driver.Value) {
	width := 1 + r.IntN(8)
	plan := Plan{Key: None}
	if r.IntN(2) == 0 {
		plan.Key = r.IntN(width)
	}
	if width > 4 && plan.Key < 2 {
		plan.Hints = map[int]Hint{3: {Like: 2, Less: None}, 4: {Like: 2, Less: 3}}
	}
	rows := make([][]driver.Value, 1+r.IntN(60))
	for i := range rows {
		for c := range width {
			rows[i] = append(rows[i], randomValue(r, c, i))
		}
	}
	return plan, rows
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
		plan, rows := randomRows(r)
		block := Append([]byte("head"), plan, rows)[4:]
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

// A counter with noise needs little more than the noise; one that steps evenly needs nothing.
func TestSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var noisy, even [][]driver.Value
	v := int64(1 << 40)
	for i := range int64(1000) {
		v += 4096 * r.Int64N(256)
		noisy = append(noisy, []driver.Value{v})
		even = append(even, []driver.Value{i * 1e6, 0.5, nil, "batch"})
	}
	if n := len(Append(nil, Plan{Key: None}, noisy)); n > 1060 {
		t.Errorf("1000 bytes of noise take %d bytes", n)
	}
	if n := len(Append(nil, Plan{Key: None}, even)); n > 120 {
		t.Errorf("1000 even rows take %d bytes", n)
	}
}

// A plan that a decoder cannot follow is refused.
func TestBadBlocks(t *testing.T) {
	rows := [][]driver.Value{{int64(1), int64(2)}, {int64(1), "x"}}
	good := Append(nil, Plan{Key: 0, Hints: map[int]Hint{1: {Like: 0, Less: None}}}, rows)
	for name, c := range map[string]struct {
		block []byte
		rows  int
	}{
		"empty":             {nil, 2},
		"cut in the body":   {good[:5], 2},
		"cut in the texts":  {good[:len(good)-3], 2},
		"no rows":           {good, 0},
		"too many rows":     {good, MaxValues},
		"fewer rows":        {good, 1},
		"more rows":         {good, 1000},
		"key beyond":        {Append(nil, Plan{Key: 2}, rowsOf(3, rows)), 2},
		"hint beyond":       {Append(nil, Plan{Key: None, Hints: map[int]Hint{0: {Like: 2, Less: None}}}, rowsOf(3, rows)), 2},
		"key with a hint":   {Append(nil, Plan{Key: 1, Hints: map[int]Hint{1: {Like: 0, Less: None}}}, rows), 2},
		"text size of much": {append(good[:len(good)-9:len(good)-9], 0xff, 0xff, 0xff, 0x7f), 2},
	} {
		if got, err := Decode(c.block, c.rows, 2); !errors.Is(err, ErrBlock) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// rowsOf widens rows.
func rowsOf(width int, rows [][]driver.Value) (out [][]driver.Value) {
	for _, row := range rows {
		out = append(out, append(append([]driver.Value(nil), row...), make([]driver.Value, width-len(row))...))
	}
	return out
}

// Any bytes decode within the limits, or do not; what decodes can be encoded.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(20) {
		plan, rows := randomRows(rand.New(rand.NewPCG(seed, 3)))
		f.Add(Append(nil, plan, rows), uint16(len(rows)), uint8(len(rows[0])))
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
		if size > 11*MaxText { // a uvarint takes up to 10 bytes
			t.Fatalf("%d bytes of texts", size)
		}
		again, err := Decode(Append(nil, Plan{Key: None}, rows), int(n), int(width))
		if err != nil || !reflect.DeepEqual(bitwise(again), bitwise(rows)) {
			t.Fatalf("%v after %v: %v", again, rows, err)
		}
	})
}
