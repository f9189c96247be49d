package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// Process is one of the processes that used most, according to the readings.
type Process struct {
	PID        uint64          `json:"pid"`
	Comm       string          `json:"comm"`
	Step       string          `json:"step,omitempty"`
	Task       rt.Opt[uint64]  `json:"task"`
	UsedSecs   rt.Opt[float64] `json:"used_secs"`
	RSSBytes   rt.Opt[uint64]  `json:"rss_bytes"` // highest reading; shared pages count in each process
	PSSBytes   rt.Opt[uint64]  `json:"pss_bytes"` // highest reading; shared pages are divided
	Threads    rt.Opt[uint64]  `json:"threads"`
	ReadBytes  rt.Opt[uint64]  `json:"read_bytes"`
	WriteBytes rt.Opt[uint64]  `json:"write_bytes"`
}

// topProcesses is the number of processes shown by CPU time, and of those by memory.
const topProcesses = 5

// maxProcesses bounds the processes in memory; a job can have any number.
const maxProcesses = 4096

type processKey struct{ pid, start uint64 }

type processTallies map[processKey]*Process

func (t processTallies) add(s *rt.Snapshot) {
	for i := range s.Procs {
		r := &s.Procs[i]
		if isSlurms(r) {
			continue
		}
		entry(t, processKey{r.PID, r.Start}).add(r)
	}
	if len(t) > maxProcesses {
		t.prune()
	}
}

// isSlurms reports whether a process is slurmstepd, also just before it executes a task, or the
// process that Slurm keeps in the extern step.
func isSlurms(r *rt.ProcessReading) bool {
	return r.Comm == "slurmstepd" || (r.Step == "extern" && r.Comm == "sleep")
}

func (p *Process) add(r *rt.ProcessReading) {
	p.PID, p.Comm, p.Step, p.Task = r.PID, r.Comm, r.Step, r.Task
	if user, system, ok := rt.Both(r.UserTicks, r.SystemTicks); ok {
		p.UsedSecs.Set(float64(user+system) / rt.TicksPerSecond)
	}
	for _, f := range [...][2]*rt.Opt[uint64]{
		{&p.RSSBytes, &r.RSS}, {&p.PSSBytes, &r.PSS}, {&p.Threads, &r.Threads},
		{&p.ReadBytes, &r.ReadBytes}, {&p.WriteBytes, &r.WriteBytes},
	} {
		raise(f[0], *f[1])
	}
}

// prune drops the processes that cannot be among the first any more.
func (t processTallies) prune() {
	keep := map[*Process]bool{}
	for _, by := range []func(a, b *Process) int{byCPU, byMemory} {
		for _, p := range t.sorted(by)[:maxProcesses/4] {
			keep[p] = true
		}
	}
	for key, p := range t {
		if !keep[p] {
			delete(t, key)
		}
	}
}

func (t processTallies) sorted(by func(a, b *Process) int) []*Process {
	return slices.SortedFunc(maps.Values(t), func(a, b *Process) int { return cmp.Or(by(a, b), cmp.Compare(a.PID, b.PID)) })
}

func byCPU(a, b *Process) int { return -cmp.Compare(a.UsedSecs.Or(0), b.UsedSecs.Or(0)) }

func byMemory(a, b *Process) int { return -cmp.Compare(a.RSSBytes.Or(0), b.RSSBytes.Or(0)) }

// top returns the processes with most CPU time, then those with most memory that are not
// among the first.
func (t processTallies) top() []Process {
	var out []Process
	shown := map[*Process]bool{}
	for _, by := range []func(a, b *Process) int{byCPU, byMemory} {
		list := t.sorted(by)
		for _, p := range list[:min(topProcesses, len(list))] {
			if !shown[p] {
				out = append(out, *p)
			}
			shown[p] = true
		}
	}
	return out
}
