package report

import "github.com/resource-tracker/rt"

// Sum is what jobs reserved, used and wasted together. What is not known adds nothing.
type Sum struct {
	Balance
	NotUsed   [3]rt.Opt[float64] // of each job, see Balance.Unused
	WasteSecs rt.Opt[float64]    // of each job, see Balance.Waste
}

// SumOf returns the sum of one job.
func SumOf(b *Balance, p Prices) Sum { return Sum{*b, b.Unused(), b.Waste(p)} }

// AddSum adds the sum of other jobs.
func (s *Sum) AddSum(other *Sum) {
	s.Add(&other.Balance)
	addKnown(&s.WasteSecs, other.WasteSecs)
	for i := range s.NotUsed {
		addKnown(&s.NotUsed[i], other.NotUsed[i])
	}
}

func addKnown(sum *rt.Opt[float64], figure rt.Opt[float64]) {
	if v, isKnown := figure.Get(); isKnown {
		sum.Set(sum.Or(0) + v)
	}
}

// Hours is a Sum in hours, with the names of docs/waste.md.
type Hours struct {
	CoreHours       rt.Opt[float64] `json:"core_hours"`
	UsedCoreHours   rt.Opt[float64] `json:"core_hours_used"`
	UnusedCoreHours rt.Opt[float64] `json:"core_hours_unused"`
	GPUHours        rt.Opt[float64] `json:"gpu_hours"`
	UsedGPUHours    rt.Opt[float64] `json:"gpu_hours_used"`
	UnusedGPUHours  rt.Opt[float64] `json:"gpu_hours_unused"`
	GiBHours        rt.Opt[float64] `json:"gib_hours"`
	UsedGiBHours    rt.Opt[float64] `json:"gib_hours_used"`
	UnusedGiBHours  rt.Opt[float64] `json:"gib_hours_unused"`
	WasteHours      rt.Opt[float64] `json:"waste_core_hours"`
	WasteMark       Mark            `json:"waste_mark"` // empty: exact
	WasteCost       rt.Opt[float64] `json:"waste_cost"` // absent without a price
}

// Hours returns the sum in hours.
func (s *Sum) Hours(p Prices) Hours {
	of := func(secs rt.Opt[float64], unit float64) rt.Opt[float64] {
		return rt.Map(secs, func(v float64) float64 { return v / unit })
	}
	const hour, gibHour = 3600, 3600 * (1 << 30)
	h := Hours{
		CoreHours: of(s.CoreSecs, hour), UsedCoreHours: of(s.CoreSecsUsed, hour), UnusedCoreHours: of(s.NotUsed[0], hour),
		GPUHours: of(s.GPUSecs, hour), UsedGPUHours: of(s.GPUSecsUsed, hour), UnusedGPUHours: of(s.NotUsed[1], hour),
		GiBHours: of(s.MemorySecs, gibHour), UsedGiBHours: of(s.MemorySecsUsed, gibHour), UnusedGiBHours: of(s.NotUsed[2], gibHour),
		WasteHours: of(s.WasteSecs, hour),
	}
	if secs, isKnown := s.WasteSecs.Get(); isKnown {
		h.WasteMark, h.WasteCost = s.WasteMark(), p.Cost(secs)
	}
	return h
}
