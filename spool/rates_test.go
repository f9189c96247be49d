package spool

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/resource-tracker/rt"
)

// anything sets the scalars of s to small numbers, or to nothing.
func anything(rng *rand.Rand, s *rt.Snapshot) {
	s.Boot, s.Wall, s.Node.ReadBoot = s.Boot+1e9+rng.Int64N(1e9), s.Wall+1e9, 0
	if rng.IntN(2) == 0 {
		s.Node.ReadBoot = s.Boot - 1e8
	}
	phases := [...]rt.JobPhase{rt.JobNone, rt.JobPending, rt.JobPresent, rt.JobGone}
	s.Job, s.Tree = rt.JobReading{Phase: phases[rng.IntN(len(phases))]}, rt.TreeReading{}
	s.Node.CPU.Clear()
	if rng.IntN(8) > 0 {
		var t rt.CPUTimes
		for _, p := range tickFields(&t) {
			*p = rng.Uint64N(100)
		}
		s.Node.CPU.Set(t)
	}
	for _, p := range optFields(s) {
		p.Clear()
		if rng.IntN(8) > 0 {
			p.Set(rng.Uint64N(100) << 20)
		}
	}
	for _, p := range realFields(s) {
		p.Clear()
		if rng.IntN(8) > 0 {
			p.Set(rng.Float64())
		}
	}
}

// What Rates leaves out changes no figure that is derived, through gaps too.
func TestRatesAreEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var prev, cur, some, prevSome rt.Snapshot
	left := 0
	for n := range 50_000 {
		prev, prevSome = cur, some
		anything(rng, &cur)
		kept := some // what is inherited has places of its own
		some = cur
		for i, p := range optFields(&some) {
			if !optColumns[i].isDerived {
				p.Clear()
				left++
			}
		}
		if n == 0 {
			continue
		}
		for _, scope := range []rt.Scope{rt.ScopeNode, rt.ScopeJob} {
			if all, few := rt.DeriveScalars(&prev, &cur, scope), rt.DeriveScalars(&prevSome, &some, scope); all != few {
				t.Fatalf("snapshot %d, scope %s: %+v, with less %+v", n, scope, all, few)
			}
		}
		if all, few := rt.DeriveProcess(&prev, &cur), rt.DeriveProcess(&prevSome, &some); all != few {
			t.Fatalf("snapshot %d: process %+v, with less %+v", n, all, few)
		}
		cur.InheritCounters(&prev)
		some.InheritCounters(&kept)
	}
	if left < 50_000*len(optColumns)/3 {
		t.Errorf("%d figures were left out of %d snapshots", left, 50_000)
	}
}

// Rates gives what Scalars gives, but for what no figure is derived from.
func TestRatesRead(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(4, 2)
	for range 300 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	var want []rt.Snapshot
	for s, err := range r.Scalars(t.Context(), 130, 290) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, *s)
		last := &want[len(want)-1]
		for i, p := range optFields(last) {
			if !optColumns[i].isDerived {
				p.Clear()
			}
		}
	}
	i := 0
	for s, err := range r.Rates(t.Context(), 130, 290) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(want) || s.Seq != want[i].Seq || s.Node != want[i].Node || s.Job != want[i].Job || s.Tree != want[i].Tree || s.GPU != want[i].GPU {
			t.Fatalf("snapshot %d: %+v, want %+v", i, *s, want[i])
		}
		i++
	}
	if i != len(want) || i != 161 {
		t.Errorf("%d snapshots, want %d", i, len(want))
	}
}

// A CSV row has all interfaces: Rates has them where a virtual one counts what a port counts.
func TestRatesHaveVirtualInterfaces(t *testing.T) {
	for _, over := range []string{"eno1.7", "eno2"} {
		w := mustCreate(t, Options{})
		m := newMachine(2, 2)
		for n := range uint64(200) {
			s := m.next()
			s.Nets = []rt.NetReading{{Name: "eno1", RxBytes: rt.Some(10 * n), TxBytes: rt.Some(n)}, {Name: over, RxBytes: rt.Some(9 * n), TxBytes: rt.Some(n)}}
			s.Node.NetRxBytes, s.Node.NetTxBytes = rt.Some(10*n), rt.Some(n)
			if err := w.Put(s); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(testRun()); err != nil {
			t.Fatal(err)
		}
		var prev rt.Snapshot
		want := rt.Some[uint64](10)
		if over == "eno1.7" {
			want.Set(19)
		}
		for s, err := range mustOpen(t, w.Path()).Rates(t.Context(), 130, 190) {
			if err != nil {
				t.Fatal(err)
			}
			if got := rt.DeriveScalars(&prev, s, rt.ScopeNode).NetRecvBytes; prev.Seq > 0 && got != want {
				t.Fatalf("%s, snapshot %d: received %v, want %v", over, s.Seq, got, want)
			}
			prev = *s
			prev.Nets = slices.Clone(s.Nets)
		}
	}
}

// Usage gives its figures and the GPUs as Snapshots does, and no other list.
func TestUsageRead(t *testing.T) {
	w := mustCreate(t, Options{})
	m, rng := newMachine(4, 2), rand.New(rand.NewPCG(3, 4))
	for range 300 {
		s := m.next()
		anything(rng, s)
		if err := w.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	used := 0
	var want []rt.Snapshot
	for s, err := range r.Snapshots(t.Context(), 130, 290) {
		if err != nil {
			t.Fatal(err)
		}
		only := rt.Snapshot{Seq: s.Seq, Wall: s.Wall, Boot: s.Boot, Reason: s.Reason, Job: rt.JobReading{Phase: s.Job.Phase}, GPUs: slices.Clone(s.GPUs)}
		only.Node.CPU = s.Node.CPU
		from, to := optFields(s), optFields(&only)
		for i := range to {
			if slices.Contains(usageNames[:], optColumns[i].name) {
				*to[i] = *from[i]
				used++
			}
		}
		want = append(want, only)
	}
	if used != len(want)*len(usageNames) {
		t.Fatalf("%d snapshots have %d figures: a name in usageNames is no column", len(want), used)
	}
	i := 0
	for s, err := range r.Usage(t.Context(), 130, 290) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(want) || len(s.GPUs) != 2 || !reflect.DeepEqual(*s, want[i]) {
			t.Fatalf("snapshot %d: %+v, want %+v", i, *s, want[min(i, len(want)-1)])
		}
		i++
	}
	if i != len(want) || i != 161 {
		t.Errorf("%d snapshots, want %d", i, len(want))
	}
}
