package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestSplitAndJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var prev []Core
	splits := 0
	for range 2000 {
		cur := make([]Core, r.IntN(6))
		for i := range cur {
			cur[i] = Core{CPU: i, Busy: r.Uint64N(100), Total: 1000}
			if i < len(prev) {
				cur[i].Busy, cur[i].Total = prev[i].Busy+r.Uint64N(1<<r.IntN(40)), prev[i].Total+r.Uint64N(1<<r.IntN(50))
			}
		}
		row := Append(nil, prev, cur)
		list, ok := Split(row)
		if !ok || !bytes.Equal(Join(list), row) {
			t.Fatalf("%x is split into %v, %v", row, list, ok)
		}
		splits += len(list)
		prev = cur
	}
	if splits < 2000 {
		t.Errorf("%d numbers", splits)
	}
	for _, row := range []string{"", "\x80", "\x80\x00", "\x01\x03\x00", "\x01\x03\x80", "\x00\xff"} {
		if list, ok := Split([]byte(row)); ok {
			t.Errorf("%x is split into %v", row, list)
		}
	}
}
