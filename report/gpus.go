package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// GPU is one GPU of the job, whether it was used or not. A run without a job has all GPUs of the node.
type GPU struct {
	UUID  string       `json:"uuid"`
	Name  string       `json:"name"`
	Host  string       `json:"host_id,omitempty"`
	InJob rt.Opt[bool] `json:"in_job"` // allocated to the job
	// BusyPct is the share of time in which it ran a kernel. A busy GPU need not be efficient.
	BusyPct        rt.Opt[float64] `json:"busy_pct"`
	MaxBusyPct     rt.Opt[float64] `json:"max_busy_pct"`
	VRAMPeakBytes  rt.Opt[uint64]  `json:"vram_peak_bytes"` // highest reading
	VRAMTotalBytes rt.Opt[uint64]  `json:"vram_total_bytes"`
	MeanWatts      rt.Opt[float64] `json:"mean_watts"`
	Processes      int             `json:"processes"` // that the driver reported on it
}

// mean is a mean over time: each reading counts for the interval before it.
type mean struct{ sum, secs float64 }

func (m *mean) add(v rt.Opt[float64], secs float64) {
	if x, ok := v.Get(); ok && secs > 0 {
		m.sum += float64(x * secs)
		m.secs += secs
	}
}

func (m *mean) value() rt.Opt[float64] {
	if m.secs == 0 {
		return rt.None[float64]()
	}
	return rt.Some(m.sum / m.secs)
}

type gpuTally struct {
	GPU
	part        slice
	order       int
	busy, watts mean
	pids        map[uint64]bool
}

type gpuTallies map[string]*gpuTally

// add takes a reading; secs is the interval before it.
func (t gpuTallies) add(s *rt.Snapshot, secs float64) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		of := t[g.UUID]
		if of == nil {
			of = &gpuTally{order: len(t), pids: map[uint64]bool{}}
			t[g.UUID] = of
		}
		of.UUID, of.Name, of.Host = g.UUID, g.Name, g.Host
		of.part.set(g.Detail)
		of.InJob = cmp.Or(g.InJob, of.InJob)
		of.VRAMTotalBytes = cmp.Or(g.VRAMTotal, of.VRAMTotalBytes)
		raise(&of.VRAMPeakBytes, g.VRAMUsed)
		raise(&of.MaxBusyPct, g.Utilization)
		of.busy.add(g.Utilization, secs)
		of.watts.add(g.Power, secs)
	}
	for i := range s.GPUProcesses {
		if of := t[s.GPUProcesses[i].UUID]; of != nil {
			of.pids[s.GPUProcesses[i].PID] = true
		}
	}
}

// list returns the job's GPUs, or all GPUs for a run without a job. If the job's cgroup was not read, a GPU of which it is
// not known whether it belongs to the job is in the list too.
func (t gpuTallies) list(scope Scope, hasJob bool) []GPU {
	out := []GPU{}
	for _, of := range t.sorted() {
		isListed := !hasJob || of.InJob.Or(true)
		if scope == ScopeJob {
			isListed = of.InJob.Or(false)
		}
		if isListed {
			of.BusyPct, of.MeanWatts, of.Processes = of.busy.value(), of.watts.value(), len(of.pids)
			out = append(out, of.GPU)
		}
	}
	return out
}

// sorted returns the GPUs in the order in which they were first read.
func (t gpuTallies) sorted() []*gpuTally {
	return slices.SortedFunc(maps.Values(t), func(a, b *gpuTally) int { return cmp.Compare(a.order, b.order) })
}
