package rt

import (
	"testing"
	"time"
)

// allCopies are copies with each combination of the fields.
func allCopies() (all []*Copy) {
	for _, state := range []State{StateRunning, StateEnded} {
		for _, hasRecord := range []bool{false, true} {
			for _, last := range []time.Time{{}, time.Unix(1, 0), time.Unix(2, 0)} {
				for _, readings := range []int64{0, 3, 5} {
					for _, atSite := range []bool{false, true} {
						for _, place := range []string{"a", "b"} {
							all = append(all, &Copy{state, hasRecord, last, readings, atSite, place})
						}
					}
				}
			}
		}
	}
	return all
}

// Better is a strict total order of different copies.
func TestBetterIsATotalOrder(t *testing.T) {
	all := allCopies()
	for _, a := range all {
		for _, b := range all {
			isBetter, isWorse := a.Better(b), b.Better(a)
			isRight := isBetter != isWorse
			if a == b {
				isRight = !isBetter && !isWorse
			}
			if !isRight {
				t.Fatalf("%+v better than %+v: %t, and the reverse: %t", a, b, isBetter, isWorse)
			}
			if !isBetter {
				continue
			}
			for _, c := range all {
				if b.Better(c) && !a.Better(c) {
					t.Fatalf("%+v is better than %+v, this than %+v, but not the first than the last", a, b, c)
				}
			}
		}
	}
}

// One field after the other decides.
func TestBetter(t *testing.T) {
	order := []Copy{ // the best first
		{State: StateDelivered, HasRecord: true, LastReading: time.Unix(2, 0), Readings: 1, IsAtSite: true},
		{State: StateEnded, HasRecord: true, LastReading: time.Unix(1, 0), Readings: 9},
		{State: StateEnded, HasRecord: true, LastReading: time.Unix(1, 0), Readings: 8},
		{State: StateEnded, HasRecord: true, LastReading: time.Unix(1, 0), Readings: 8, IsAtSite: true, Place: "20260301t130000"},
		{State: StateEnded, HasRecord: true, LastReading: time.Unix(1, 0), Readings: 8, IsAtSite: true, Place: "20260301t120000"},
		{State: StateEnded, LastReading: time.Unix(9, 0), Readings: 99, Place: "z"},
		{State: StateRunning, HasRecord: true, LastReading: time.Unix(9, 0), Readings: 99, Place: "z"},
		{State: StateRunning, LastReading: time.Unix(9, 0), Readings: 99, Place: "z"},
	}
	for i := range order {
		for k := range order {
			if got := order[i].Better(&order[k]); got != (i < k) {
				t.Errorf("copy %d better than copy %d: %t", i, k, got)
			}
		}
	}
}

// A copy is of the same user, also if a site has his pseudonym.
func TestIsSame(t *testing.T) {
	run := func(user, node string) *Run {
		return &Run{Identity: Identity{Cluster: "c", JobID: Some[uint64](7), Node: node}, Allocation: Allocation{User: user}}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"alice", "alice", true},
		{"alice", "bob", false},
		{"alice", "", true},
		{"alice", "user-mzxw6ytboi5dgmrq", true},
		{"alice", "user-mzxw6ytboi5dgmrQ", false},
		{"alice", "user-mzxw6ytboi5dgmr", false},
		{"alice", "user-smith", false},
	} {
		if got := run(tt.a, "n1").IsSame(run(tt.b, "n1")); got != tt.want {
			t.Errorf("%q and %q: %t", tt.a, tt.b, got)
		}
	}
	if run("alice", "n1").IsSame(run("alice", "n2")) {
		t.Error("runs on two nodes are one")
	}
}

// An outcome that says more is more certain.
func TestCertainty(t *testing.T) {
	order := []Outcome{
		OutcomeNone, OutcomeUnknown, OutcomeLost, OutcomeFinished, OutcomeFailed, OutcomeTerminated, OutcomeCancelled, OutcomeTimeout, OutcomeOOM,
	}
	for i := 1; i < len(order); i++ {
		if order[i].Certainty() <= order[i-1].Certainty() {
			t.Errorf("%q is not more certain than %q", order[i], order[i-1])
		}
	}
	if Outcome("new").Certainty() != 0 {
		t.Error("an outcome that is not known is certain")
	}
}
