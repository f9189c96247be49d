package site

import (
	"encoding/json"
	"math"

	"github.com/resource-tracker/rt"
)

// Figures are what runs had reserved and what they used of it. Both figures of a pair are about the same
// runs: if one of them is not known, both are absent. The used memory is the peak during the whole
// time, because a request must cover the peak.
type Figures struct {
	CoreSecs, CoreSecsUsed     rt.Opt[float64]
	GPUSecs, GPUSecsUsed       rt.Opt[float64]
	MemorySecs, MemorySecsUsed rt.Opt[float64] // byte-seconds
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

// WasteParts are what was reserved and not used of cores, GPUs and memory, in equivalent core-seconds. A part of which
// the figures are not known is absent.
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

// maxFigure is the largest figure that is accepted from a client: its sums stay exact enough.
const maxFigure = 1e24

// FiguresOf returns the figures in the summary of a finish. The figures of a node that was not reserved
// for the job are not used, and neither is a pair with a figure that no run can have.
func FiguresOf(summary json.RawMessage) (f Figures) {
	var s struct {
		Run struct {
			GPUs string `json:"gpus"`
		} `json:"run"`
		Elapsed rt.Opt[float64] `json:"elapsed_secs"`
		CPU     struct {
			Used      rt.Opt[float64] `json:"used_secs"`
			Allocated rt.Opt[float64] `json:"allocated_secs"`
			Of        string          `json:"cores_of"`
		} `json:"cpu"`
		Memory struct {
			Peak  rt.Opt[uint64] `json:"peak_bytes"`
			Limit rt.Opt[uint64] `json:"limit_bytes"`
			Of    string         `json:"limit_of"`
		} `json:"memory"`
		GPUs []struct {
			InJob rt.Opt[bool]    `json:"in_job"`
			Busy  rt.Opt[float64] `json:"busy_pct"`
		} `json:"gpus"`
	}
	if json.Unmarshal(summary, &s) != nil {
		return f
	}
	if s.CPU.Of == "allocation" {
		f.CoreSecs, f.CoreSecsUsed = s.CPU.Allocated, s.CPU.Used
	}
	elapsed, isKnown := s.Elapsed.Get()
	isLimit := s.Memory.Of == "cgroup" || s.Memory.Of == "allocation"
	peak, hasPeak := s.Memory.Peak.Get()
	limit, hasLimit := s.Memory.Limit.Get()
	if isKnown && isLimit && hasPeak && hasLimit {
		f.MemorySecs.Set(float64(limit) * elapsed)
		f.MemorySecsUsed.Set(float64(peak) * elapsed)
	}
	busy, count, isRead := 0.0, uint64(0), true
	for _, gpu := range s.GPUs {
		if gpu.InJob.Or(false) {
			count++
			isRead = isRead && gpu.Busy.Valid()
			busy += gpu.Busy.Or(0) / 100
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

func isFigure(v rt.Opt[float64]) bool {
	n, ok := v.Get()
	isPossible := n >= 0 && n <= maxFigure && !math.IsNaN(n)
	return ok && isPossible
}
