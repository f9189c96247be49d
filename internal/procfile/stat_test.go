package procfile

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const tail = " S 7 1 1 -1 -1 4194304 98 0 6 0 11 12 13 14 20 -5 5 0 139343 3133440 379 18446744073709551615 1 1"
	for _, comm := range []string{"cat", "a b", "(sd-pam)", "x) R 1 (y", ") S 1 2 3", ""} {
		got, ok := ParseStat([]byte("42 (" + comm + ")" + tail + "\n"))
		want := Stat{
			Comm: []byte(comm), State: 'S', PPID: 7, PGRP: 1, Own: [2]uint64{11, 12}, Waited: [2]uint64{13, 14},
			Threads: 5, Start: 139343, RSS: 379,
		}
		if d := cmp.Diff(want, got); !ok || d != "" {
			t.Errorf("command %q: %t (-want +got):\n%s", comm, ok, d)
		}
	}
	for _, text := range []string{
		"", "42", "42 cat S 7", "42 (cat", "42 )cat(" + tail, "42 (cat) S", "42 (cat) S x 1", "42 (x) S 1 2 3", "42 (cat) SS" + tail[2:],
		"42 (cat) S 2147483648" + tail[4:], "42 (cat) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",
	} {
		if got, ok := ParseStat([]byte(text)); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestEnded(t *testing.T) {
	for _, state := range []byte("RSDTtI") {
		if s := (Stat{State: state}); s.Ended() {
			t.Errorf("a process in state %c has ended", state)
		}
	}
	for _, state := range []byte("ZX") {
		if s := (Stat{State: state}); !s.Ended() {
			t.Errorf("a process in state %c has not ended", state)
		}
	}
}

func FuzzStat(f *testing.F) {
	self, err := os.ReadFile("/proc/self/stat")
	if err != nil || len(self) == 0 {
		f.Fatalf("no seed: %v", err)
	}
	f.Add(self)
	f.Add([]byte("7 (a) (b)) R 7) S 7 1 1 0 -1 4194304 98 0 0 0 11 12 13 14 20 0 5 0 139343 3133440 379 18446744073709551615\n"))
	f.Add([]byte("8 ((sd-pam)) S 7 1 1 0 -1 4194304 98 0 0 0 1 2 3 4 20 0 1 0 1 0 0 0\n"))
	f.Add([]byte("42 (a) b (c)) Z 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 998877 1 1\n"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, b []byte) {
		isWrong := func(s Stat) bool { return s.PPID < 0 || s.State == 0 }
		if s, ok := ParseStat(b); ok && isWrong(s) {
			t.Errorf("%q is read as %+v", b, s)
		}
	})
}
