package spool

import (
	"fmt"
	"testing"

	"github.com/resource-tracker/rt"
)

// The last figures of a step that ended while the disk refused are stored once it
// takes snapshots again, however many were thinned between.
func TestThinningKeepsStepsThatEnded(t *testing.T) {
	some := rt.Some[uint64]
	w := mustCreate(t, Options{MaxPending: 6})
	m := newMachine(1, 0)
	if err := w.Put(m.next()); err != nil {
		t.Fatal(err)
	}
	if err := w.db.exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	const steps = 30
	for i := range steps {
		s := m.next()
		s.Steps = []rt.StepReading{{Step: fmt.Sprint(i), Ended: true, CPUUsage: some(uint64(1000 + i))}}
		s.Energy = []rt.EnergyReading{{Source: "powercap", Domain: "package-0"}}
		if i == 3 {
			s.Energy[0].Energy = some(77)
		}
		if err := w.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.db.exec("PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	found, energy := map[string]uint64{}, uint64(0)
	for _, s := range collect(t, mustOpen(t, w.Path()), 1, 0) {
		for _, step := range s.Steps {
			if step.Ended {
				found[step.Step] = step.CPUUsage.Or(0)
			}
		}
		for _, e := range s.Energy {
			energy = max(energy, e.Energy.Or(0))
		}
	}
	for i := range steps {
		if found[fmt.Sprint(i)] != uint64(1000+i) {
			t.Errorf("step %d: %d", i, found[fmt.Sprint(i)])
		}
	}
	if energy != 77 {
		t.Errorf("energy %d", energy)
	}
}

// Processes come and go without end. A writer remembers a bounded number, and stores right values
// all the same, also for a process that comes back.
func TestManyProcesses(t *testing.T) {
	w := mustCreate(t, Options{})
	var s rt.Snapshot
	back := rt.ProcessReading{PID: 1, Start: 1, Comm: "back", Threads: rt.Some[uint64](4)}
	for i := range 3 * maxKnown {
		s.Boot += 1e9
		s.Wall = s.Boot
		s.Procs = []rt.ProcessReading{{PID: uint64(100 + i), Start: 5, Comm: "short", Threads: rt.Some[uint64](1)}}
		if i == 0 || i == 2*maxKnown {
			s.Procs = append(s.Procs, back)
		}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range w.out.lists {
		if n := l.begin().known; n > maxKnown+10 {
			t.Errorf("%d identities of list %d are remembered", n, i)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Error(p.What)
	}
	i := 0
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if i == 0 || i == 2*maxKnown {
			want = 2
		}
		if len(s.Procs) != want || s.Procs[0].PID != uint64(100+i) && s.Procs[want-1].PID != uint64(100+i) {
			t.Fatalf("snapshot %d: %+v", s.Seq, s.Procs)
		}
		i++
	}
}
