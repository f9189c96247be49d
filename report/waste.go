package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/resource-tracker/rt"
)

// Balance is what runs had reserved and what they used of it. Both figures of a pair are about the same
// runs: if one of them is not known, both are absent. The used memory is the peak during the whole
// time, because a request must cover the peak. docs/waste.md describes it.
type Balance struct {
	CoreSecs       rt.Opt[float64] `json:"core_secs"`
	CoreSecsUsed   rt.Opt[float64] `json:"core_secs_used"`
	GPUSecs        rt.Opt[float64] `json:"gpu_secs"`
	GPUSecsUsed    rt.Opt[float64] `json:"gpu_secs_used"`
	MemorySecs     rt.Opt[float64] `json:"memory_byte_secs"`
	MemorySecsUsed rt.Opt[float64] `json:"memory_byte_secs_used"`
	CoreMark       Mark            `json:"core_mark,omitempty"`   // of CoreSecsUsed
	MemoryMark     Mark            `json:"memory_mark,omitempty"` // of MemorySecsUsed
}

// Pairs returns pointers to the figures of cores, GPUs and memory: what was reserved, and what was used of it.
func (b *Balance) Pairs() [3][2]*rt.Opt[float64] {
	return [3][2]*rt.Opt[float64]{{&b.CoreSecs, &b.CoreSecsUsed}, {&b.GPUSecs, &b.GPUSecsUsed}, {&b.MemorySecs, &b.MemorySecsUsed}}
}

// Prices are the prices of the section waste of rt.toml.
type Prices struct {
	GPU, GiB float64 // of an hour of a GPU and of a GiB of memory, in core-hours
	CoreHour float64 // of an hour of a core, in money; 0 if it is not known
	Currency string
}

// Cost is the price of equivalent core-seconds in money; absent without a price.
func (p *Prices) Cost(secs float64) (cost rt.Opt[float64]) {
	if p.CoreHour > 0 {
		cost.Set(secs / 3600 * p.CoreHour)
	}
	return cost
}

// DefaultPrices are the defaults of rt.toml.
var DefaultPrices = Prices{GPU: 16, GiB: 0.25}

// WasteParts are what was reserved and not used of cores, GPUs and memory, in equivalent core-seconds. A part
// without known figures is absent.
func (b *Balance) WasteParts(p Prices) (parts [3]rt.Opt[float64]) {
	weights := [...]float64{1, p.GPU, p.GiB / (1 << 30)}
	for i, unused := range b.Unused() {
		if v, isKnown := unused.Get(); isKnown {
			parts[i].Set(v * weights[i])
		}
	}
	return parts
}

// Unused is what was reserved and not used of each pair.
func (b *Balance) Unused() (list [3]rt.Opt[float64]) {
	for i, pair := range b.Pairs() {
		if reserved, isKnown := pair[0].Get(); isKnown {
			list[i].Set(max(0, reserved-pair[1].Or(0)))
		}
	}
	return list
}

// Waste is the sum of the parts, in whole equivalent core-seconds, so that sums over jobs are exact. A figure that is
// not known adds nothing; without any figure the waste is absent.
func (b *Balance) Waste(p Prices) (waste rt.Opt[float64]) {
	for _, part := range b.WasteParts(p) {
		if secs, isKnown := part.Get(); isKnown {
			waste.Set(waste.Or(0) + secs)
		}
	}
	if secs, isKnown := waste.Get(); isKnown {
		waste.Set(math.Round(secs))
	}
	return waste
}

// WasteMark is the mark of the waste.
func (b *Balance) WasteMark() Mark { return cmp.Or(b.CoreMark.Rest(), b.MemoryMark.Rest()) }

// Add adds the balance of other runs.
func (b *Balance) Add(other *Balance) {
	from := other.Pairs()
	for i, pair := range b.Pairs() {
		for k := range pair {
			addKnown(pair[k], *from[i][k])
		}
	}
	b.CoreMark, b.MemoryMark = max(b.CoreMark, other.CoreMark), max(b.MemoryMark, other.MemoryMark)
}

// Balance returns the balance of the run. It leaves out a node that was not reserved for the job.
func (s *Summary) Balance() (b Balance) {
	isAllocated := s.CPU.CoresOf == "allocation" && s.CPU.AllocatedSecs.Valid() && s.CPU.UsedSecs.Valid()
	if isAllocated {
		b.CoreSecs, b.CoreSecsUsed, b.CoreMark = s.CPU.AllocatedSecs, s.CPU.UsedSecs, s.CPU.UsedMark
	}
	elapsed, isKnown := s.ElapsedSecs.Get()
	isLimit := s.Memory.LimitOf == "cgroup" || s.Memory.LimitOf == "allocation"
	peak, hasPeak := s.Memory.PeakBytes.Get()
	limit, hasLimit := s.Memory.LimitBytes.Get()
	if isKnown && isLimit && hasPeak && hasLimit {
		b.MemorySecs.Set(float64(limit) * elapsed)
		b.MemorySecsUsed.Set(float64(peak) * elapsed)
		b.MemoryMark = s.Memory.PeakMark
	}
	busy, count, isRead := 0.0, uint64(0), true
	for i := range s.GPUs {
		gpu := &s.GPUs[i]
		if gpu.InJob.Or(false) {
			count++
			isRead = isRead && gpu.BusyPct.Valid()
			busy += gpu.BusyPct.Or(0) / 100
		}
	}
	hasGPUs := count > 0 && count >= rt.CountGPUs(s.Run.GPUs) && isRead
	if isKnown && hasGPUs {
		b.GPUSecs.Set(float64(count) * elapsed)
		b.GPUSecsUsed.Set(busy * elapsed)
	}
	return b
}

// WasteShares names what was wasted, with the shares of the waste; empty without waste.
func (b *Balance) WasteShares(p Prices) string {
	parts, sum := b.WasteParts(p), 0.0
	for _, part := range parts {
		sum += part.Or(0)
	}
	var list []string
	for i, name := range []string{"cores", "GPUs", "memory"} {
		pct := parts[i].Or(0) / max(sum, 1) * 100
		if pct >= 1 {
			list = append(list, fmt.Sprintf("%s %.0f %%", name, pct))
		}
	}
	return strings.Join(list, ", ")
}

// WasteText is the waste in core-hours and, with a price, in money.
func (p *Prices) WasteText(secs rt.Opt[float64], mark Mark) string {
	v, ok := secs.Get()
	if !ok {
		return "-"
	}
	text := mark.Of(Significant(v/3600)) + " core-hours"
	if cost, ok := p.Cost(v).Get(); ok {
		text += ", " + Significant(cost) + onlyIf(p.Currency != "", " "+Plain(p.Currency))
	}
	return text
}
