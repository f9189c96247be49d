package procfile

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestUint(t *testing.T) {
	for word, want := range map[string]uint64{"0": 0, "007": 7, "18446744073709551615": 1<<64 - 1} {
		if got, ok := Uint([]byte(word)); !ok || got != want {
			t.Errorf("Uint(%q) = %d, %t", word, got, ok)
		}
	}
	for _, word := range []string{"", "-1", "1 ", "0x1", "18446744073709551616", "99999999999999999999"} {
		if got, ok := Uint([]byte(word)); ok {
			t.Errorf("Uint(%q) = %d", word, got)
		}
	}
}

func TestScan(t *testing.T) {
	key, v, ok, rest := Pair([]byte("oom_kill \t12\nlast"))
	if string(key) != "oom_kill" || v != 12 || !ok || string(rest) != "last" {
		t.Errorf("%q %d %t %q", key, v, ok, rest)
	}
	if key, _, ok, rest := Pair(rest); string(key) != "last" || ok || len(rest) != 0 {
		t.Errorf("%q %t %q", key, ok, rest)
	}
	var dst [2]uint64
	if rest, ok := Uints(Skip([]byte(" a\tb 3  4 five"), 2), dst[:]); !ok || dst != [2]uint64{3, 4} || string(rest) != " five" {
		t.Errorf("%v %t %q", dst, ok, rest)
	}
	if _, ok := Uints([]byte("3"), dst[:]); ok {
		t.Errorf("one number is two: %v", dst)
	}
	if got := Trim([]byte("\x00 a b\n\x00")); string(got) != "a b" {
		t.Errorf("%q", got)
	}
}

func FuzzUint(f *testing.F) {
	for _, seed := range []string{"0", "87", "18446744073709551615", "18446744073709551616", "-1", " 1", "1x", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := Uint(b)
		if !ok {
			return
		}
		want := strings.TrimPrefix(strconv.FormatUint(v, 10), "0")
		if digits := strings.TrimLeft(string(b), "0"); digits != want {
			t.Errorf("%q is read as %d", b, v)
		}
	})
}

func TestCPUs(t *testing.T) {
	if got, ok := CPUs("0-3,8"); !ok || !slices.Equal(got, []int{0, 1, 2, 3, 8}) {
		t.Errorf("%v, %t", got, ok)
	}
	if got, ok := CPUs(""); !ok || len(got) != 0 {
		t.Errorf("no CPUs: %v, %t", got, ok)
	}
	for _, bad := range []string{"a", "3-1", "0-3,2", "-1", "99999", "5-6,1-2-3", ","} {
		if got, ok := CPUs(bad); ok {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func FuzzCPUs(f *testing.F) {
	for _, seed := range []string{"0-3,8", "", "5-6,1-2-3", "0-8191", "0-8192", "7-3", "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, ok := CPUs(text)
		isAscending := slices.IsSorted(list) && len(list) <= 1<<16
		if ok && !isAscending {
			t.Fatalf("%d CPUs of %q", len(list), text)
		}
	})
}
