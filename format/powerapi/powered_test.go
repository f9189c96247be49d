package powerapi

import "github.com/resource-tracker/rt"

// poweredRun returns the run of poweredSnapshots.
func poweredRun() rt.Run {
	return rt.Run{Identity: rt.Identity{Cluster: "lab", Node: "n1", JobID: rt.Some[uint64](12)}, Ending: rt.Ending{State: rt.StateRunning}}
}

// poweredSnapshots returns a job on a node of two packages that draw 100 W each. The job
// uses half of the node's CPU time, and other work the other half.
func poweredSnapshots() []rt.Snapshot {
	var list []rt.Snapshot
	for i := range uint64(5) {
		s := rt.Snapshot{Seq: int64(i) + 1, Wall: 1_700_000_000_000_000_000 + int64(i)*1e9, Boot: 5e9 + int64(i)*1e9, Reason: rt.ReasonTick}
		s.Job.Phase = rt.JobPresent
		s.Job.CPUUsage.Set(i * 1_000_000)
		s.Node.CPU.Set(rt.CPUTimes{User: i * 200, Idle: i * 200})
		for socket := range uint64(2) {
			s.Energy = append(s.Energy, rt.EnergyReading{Source: "powercap", Domain: "package-" + string(rune('0'+socket)), Kind: rt.EnergyPackage,
				Socket: rt.Some(socket), Energy: rt.Some(i * 100_000_000)})
		}
		for cpu := range uint64(2) {
			for _, event := range []string{"task-clock", "page-faults"} {
				s.Perf = append(s.Perf, rt.PerfReading{Group: "core", Socket: cpu, CPU: cpu, Event: event,
					Value: rt.Some(i * (1000 + cpu)), TimeEnabled: rt.Some(i * 1e9), TimeRunning: rt.Some(i * 1e9)})
			}
		}
		list = append(list, s)
	}
	list[0].Reason, list[4].Reason = rt.ReasonFirst, rt.ReasonLast
	return list
}
