package spool

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// BenchmarkPutCounters is a snapshot of scalars, without and with counters. They are the energy of
// two packages and their memory, and three software events on each of two CPUs.
func BenchmarkPutCounters(b *testing.B) {
	for _, with := range []bool{false, true} {
		name := map[bool]string{false: "without", true: "with"}[with]
		b.Run(name, func(b *testing.B) {
			w := mustCreate(b, Options{})
			m := newMachine(2, 0)
			b.ReportAllocs()
			for n := uint64(1); b.Loop(); n++ {
				s := withoutDevices(m.next())
				s.CPUs = nil
				if with {
					counted(s, n)
				}
				if err := w.Put(s); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.End(testRun()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// counted puts in what n seconds made.
func counted(s *rt.Snapshot, n uint64) {
	s.Energy, s.Perf = s.Energy[:0], s.Perf[:0]
	for socket, name := range [...]string{"package-0", "package-1"} {
		at := rt.Some(uint64(socket))
		s.Energy = append(s.Energy,
			rt.EnergyReading{Source: "powercap", Domain: name, Kind: rt.EnergyPackage, Socket: at, Energy: rt.Some(n * 91_234_567)},
			rt.EnergyReading{Source: "powercap", Domain: name + "/dram", Kind: rt.EnergyDRAM, Socket: at, Energy: rt.Some(n * 8_234_567)})
	}
	for cpu := range uint64(2) {
		for i, event := range [...]string{"task-clock", "page-faults", "context-switches"} {
			s.Perf = append(s.Perf, rt.PerfReading{Group: "core", CPU: cpu, Event: event,
				Value: rt.Some(n * (uint64(i) + 3) * 12_345), TimeEnabled: rt.Some(n * 1e9), TimeRunning: rt.Some(n * 1e9)})
		}
	}
}
