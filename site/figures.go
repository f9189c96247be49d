package site

import (
	"cmp"
	"encoding/json"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// Figures are what runs had reserved and what they used of it. Both figures of a pair are about the same
// runs: if one of them is not known, both are absent. The used memory is the peak during the whole
// time, because a request must cover the peak.
type Figures struct {
	CoreSecs, CoreSecsUsed     rt.Opt[float64]
	GPUSecs, GPUSecsUsed       rt.Opt[float64]
	MemorySecs, MemorySecsUsed rt.Opt[float64] // byte-seconds
	// CoreMark and MemoryMark are of CoreSecsUsed and of MemorySecsUsed.
	CoreMark, MemoryMark report.Mark
}

// Pairs returns pointers to the figures: what was reserved, and what was used of it.
func (f *Figures) Pairs() [3][2]*rt.Opt[float64] {
	return [3][2]*rt.Opt[float64]{{&f.CoreSecs, &f.CoreSecsUsed}, {&f.GPUSecs, &f.GPUSecsUsed}, {&f.MemorySecs, &f.MemorySecsUsed}}
}

// The core-seconds to which one second of a GPU and of a GiB of memory are equivalent.
const (
	GPUCores    = 16
	MemoryCores = 0.25
)

// WasteParts are what was reserved and not used of cores, GPUs and memory, in equivalent
// core-seconds. A part without known figures is absent.
func (f *Figures) WasteParts() (parts [3]rt.Opt[float64]) {
	weights := [...]float64{1, GPUCores, MemoryCores / (1 << 30)}
	for i, pair := range f.Pairs() {
		reserved, isKnown := pair[0].Get()
		if isKnown {
			parts[i].Set(max(0, reserved-pair[1].Or(0)) * weights[i])
		}
	}
	return parts
}

// WasteSecs is the sum of the parts. A figure that is not known adds nothing; without any figure the waste is absent.
func (f *Figures) WasteSecs() (waste rt.Opt[float64]) {
	for _, part := range f.WasteParts() {
		if secs, isKnown := part.Get(); isKnown {
			waste.Set(waste.Or(0) + secs)
		}
	}
	return waste
}

// WasteMark is the mark of the waste.
func (f *Figures) WasteMark() report.Mark { return cmp.Or(f.CoreMark.Rest(), f.MemoryMark.Rest()) }

// maxFigure is the largest figure that is accepted from a client: its sums stay exact enough.
const maxFigure = 1e24

// SummaryOf returns the figures of a run in the summary of its finish, the zero value for one that cannot be read. A
// summary is a client's text.
func SummaryOf(summary json.RawMessage) (f report.RunFigures) {
	if json.Unmarshal(summary, &f) != nil {
		return report.RunFigures{}
	}
	if !isFigure(f.SuspendedSecs) {
		f.SuspendedSecs.Clear()
	}
	return f
}

// FiguresOf returns the figures of a run. It leaves out a node that was not reserved for the job,
// and a pair with a figure that no run can have.
func FiguresOf(s *report.RunFigures) (f Figures) {
	if s.CPU.CoresOf == "allocation" {
		f.CoreSecs, f.CoreSecsUsed, f.CoreMark = s.CPU.AllocatedSecs, s.CPU.UsedSecs, known(s.CPU.UsedMark)
	}
	elapsed, isKnown := s.ElapsedSecs.Get()
	isLimit := s.Memory.LimitOf == "cgroup" || s.Memory.LimitOf == "allocation"
	peak, hasPeak := s.Memory.PeakBytes.Get()
	limit, hasLimit := s.Memory.LimitBytes.Get()
	if isKnown && isLimit && hasPeak && hasLimit {
		f.MemorySecs.Set(float64(limit) * elapsed)
		f.MemorySecsUsed.Set(float64(peak) * elapsed)
		f.MemoryMark = known(s.Memory.PeakMark)
	}
	busy, count, isRead := 0.0, uint64(0), true
	for _, gpu := range s.GPUs {
		if gpu.InJob.Or(false) {
			count++
			isRead = isRead && gpu.BusyPct.Valid()
			busy += gpu.BusyPct.Or(0) / 100
		}
	}
	hasGPUs := count > 0 && count >= rt.CountGPUs(s.Run.GPUs) && isRead
	if isKnown && hasGPUs {
		f.GPUSecs.Set(float64(count) * elapsed)
		f.GPUSecsUsed.Set(busy * elapsed)
	}
	for _, pair := range f.Pairs() {
		if !isFigure(*pair[0]) || !isFigure(*pair[1]) {
			pair[0].Clear()
			pair[1].Clear()
		}
	}
	return f
}

// known is the mark of a client, if it is one.
func known(m report.Mark) report.Mark {
	if m == report.AtLeast || m == report.AtMost {
		return m
	}
	return report.Exact
}

func isFigure(v rt.Opt[float64]) bool {
	n, ok := v.Get()
	isPossible := n >= 0 && n <= maxFigure && !math.IsNaN(n)
	return ok && isPossible
}
