package report

import "github.com/resource-tracker/rt"

// Pressure is the time in which some tasks of the job, or all of them, waited, in seconds.
type Pressure struct {
	CPUSomeSecs    rt.Opt[float64] `json:"cpu_some_secs"`
	CPUFullSecs    rt.Opt[float64] `json:"cpu_full_secs"`
	MemorySomeSecs rt.Opt[float64] `json:"memory_some_secs"`
	MemoryFullSecs rt.Opt[float64] `json:"memory_full_secs"`
	IOSomeSecs     rt.Opt[float64] `json:"io_some_secs"`
	IOFullSecs     rt.Opt[float64] `json:"io_full_secs"`
	// The shares of the time between the readings in which some waited.
	CPUPct    rt.Opt[float64] `json:"cpu_pct"`
	MemoryPct rt.Opt[float64] `json:"memory_pct"`
	IOPct     rt.Opt[float64] `json:"io_pct"`
}

// Faults are the page faults of the job.
type Faults struct {
	All   rt.Opt[uint64] `json:"all"`
	Major rt.Opt[uint64] `json:"major"` // had to wait for a disk
}

func (r *reading) pressure(u *usage) Pressure {
	p := Pressure{
		CPUSomeSecs: u.stalls[0].scaled(1e-6), CPUFullSecs: u.stalls[1].scaled(1e-6),
		MemorySomeSecs: u.stalls[2].scaled(1e-6), MemoryFullSecs: u.stalls[3].scaled(1e-6),
		IOSomeSecs: u.stalls[4].scaled(1e-6), IOFullSecs: u.stalls[5].scaled(1e-6),
	}
	secs := float64(r.last.boot-r.first.boot) / 1e9
	for _, f := range [...][2]*rt.Opt[float64]{{&p.CPUSomeSecs, &p.CPUPct}, {&p.MemorySomeSecs, &p.MemoryPct}, {&p.IOSomeSecs, &p.IOPct}} {
		if v, ok := f[0].Get(); ok && secs > 0 {
			f[1].Set(min(v/secs, 1) * 100)
		}
	}
	return p
}
