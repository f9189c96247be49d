package slurm

import "testing"

func TestParseStat(t *testing.T) {
	stat, ok := parseStat([]byte("42 (a) b (c)) Z 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 998877 1 1\n"))
	if want := (ProcessStat{State: 'Z', PPID: 7, Start: 998877}); !ok || stat != want {
		t.Errorf("%+v, %v", stat, ok)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1", "42 (x) SS 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1 1 1", "1 (x) S a 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1 1 1"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b (c)) Z 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 998877 1 1\n"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if stat, ok := parseStat(text); ok && stat.State == 0 {
			t.Errorf("%q has no state", text)
		}
	})
}
