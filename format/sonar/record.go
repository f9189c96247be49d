package sonar

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
)

// writeSamples writes the records of one invocation of sonar ps.
func writeSamples(w io.Writer, head *Sample, samples []Sample, asJSON bool) error {
	var out []byte
	var err error
	if asJSON {
		out, err = AppendJSON(nil, head, samples)
	} else {
		for i := 0; i < len(samples) && err == nil; i++ {
			out, err = samples[i].AppendCSV(out)
		}
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// loadOf returns the busy time of each CPU since boot in seconds.
func loadOf(s *rt.Snapshot) []uint64 {
	seconds := make([]uint64, len(s.CPUs))
	for i := range s.CPUs {
		seconds[i] = s.CPUs[i].Times.Busy() / rt.TicksPerSecond
	}
	return seconds
}

// gpusOf returns the state of the GPUs.
func gpusOf(all []rt.GPUReading, details []gpu.Details) []GPU {
	var out []GPU
	for _, g := range wholeGPUs(all) {
		d := detailsOf(details, g.UUID)
		out = append(out, GPU{
			FanPct: d.Fan.Or(0), Mode: d.ComputeMode, Perf: d.State,
			MemUseKiB: g.VRAMUsed.Or(0) >> 10, UtilPct: natural(g.Utilization), MemUtilPct: d.MemUtilization.Or(0),
			TempC: g.Temperature.Or(0), PowerW: natural(g.Power), PowerLimitW: natural(d.PowerLimit),
			ClockMHz: g.Frequency.Or(0), MemClockMHz: d.MemClock.Or(0),
		})
	}
	return out
}

// natural returns a figure without its fraction, 0 if it is unknown.
func natural(v rt.Opt[float64]) uint64 { return uint64(max(0, v.Or(0))) }

// gpuIndex returns the number of a GPU, or its position. A MIG instance has the number of its GPU.
func gpuIndex(all []rt.GPUReading, g *rt.GPUReading) uint32 {
	number, _, _ := strings.Cut(g.Host, ":") // NVIDIA: 1, and 1:0 for an instance; AMD: a PCI address, 0000:03:00.0
	if n, err := strconv.ParseUint(number, 10, 31); err == nil && !strings.Contains(g.Host, ".") {
		return uint32(n)
	}
	for i, o := range wholeGPUs(all) {
		if o.UUID == g.UUID {
			return uint32(i)
		}
	}
	return 0
}

// wholeGPUs returns the GPUs without the MIG instances.
func wholeGPUs(all []rt.GPUReading) []*rt.GPUReading {
	var out []*rt.GPUReading
	for i := range all {
		if all[i].Detail["parent_uuid"] == "" {
			out = append(out, &all[i])
		}
	}
	return out
}

// detailsOf returns the details of a GPU, or empty ones.
func detailsOf(all []gpu.Details, uuid string) gpu.Details {
	for i := range all {
		if all[i].UUID == uuid {
			return all[i]
		}
	}
	return gpu.Details{}
}

// thousandth rounds v to three decimals.
func thousandth(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

// union returns the elements of both lists, sorted and without repetitions.
func union(a, b []uint32) []uint32 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// splitList returns the elements of a list with commas, without empty ones.
func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
