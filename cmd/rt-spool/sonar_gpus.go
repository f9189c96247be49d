package main

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/format/sonar"
)

// sonarGPUSource is the part of gpu.Source that is used here.
type sonarGPUSource interface {
	gpuSource
	Processes([]rt.GPUProcessReading) []rt.GPUProcessReading
	Details([]gpu.Details) []gpu.Details
}

// keptGPUs keeps what belongs to the reading that readGPUs takes, before it closes
// the source.
type keptGPUs struct {
	sonarGPUSource
	processes []rt.GPUProcessReading
	details   []gpu.Details
}

func (k *keptGPUs) Read(snap *rt.Snapshot) error {
	err := k.sonarGPUSource.Read(snap)
	k.processes, k.details = k.Processes(k.processes[:0]), k.Details(k.details[:0])
	return err
}

// detailsOf are those of a GPU, empty ones where there are none.
func detailsOf(all []gpu.Details, uuid string) gpu.Details {
	for i := range all {
		if all[i].UUID == uuid {
			return all[i]
		}
	}
	return gpu.Details{}
}

// gpuUse is what each process uses of the GPUs.
func (at *sonarTaken) gpuUse() map[int]sonarProcess {
	byUUID := map[string]*rt.GPUReading{}
	for i := range at.host.GPUs {
		byUUID[at.host.GPUs[i].UUID] = &at.host.GPUs[i]
	}
	use := map[int]sonarProcess{}
	for _, p := range at.gpus {
		g, ok := byUUID[p.UUID]
		if !ok {
			continue
		}
		u := use[int(p.PID)]
		u.gpus = union(u.gpus, []uint32{gpuIndex(at.host.GPUs, g)})
		u.gpuUse += p.Utilization.Or(0)
		u.gpuBytes += p.VRAMUsed.Or(0)
		if total := g.VRAMTotal.Or(0); total > 0 {
			u.gpuMem += float64(p.VRAMUsed.Or(0)) / float64(total) * 100
		}
		use[int(p.PID)] = u
	}
	return use
}

// gpuIndex is the number of a GPU, which a MIG instance shares with the GPU that
// it is part of, or its place among the GPUs where the driver counts none.
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

// wholeGPUs are the GPUs without the MIG instances.
func wholeGPUs(all []rt.GPUReading) []*rt.GPUReading {
	var out []*rt.GPUReading
	for i := range all {
		if all[i].Detail["parent_uuid"] == "" {
			out = append(out, &all[i])
		}
	}
	return out
}

// sonarGPUs is what the GPUs did, as far as it was read.
func sonarGPUs(all []rt.GPUReading, details []gpu.Details) []sonar.GPU {
	var out []sonar.GPU
	for _, g := range wholeGPUs(all) {
		d := detailsOf(details, g.UUID)
		out = append(out, sonar.GPU{
			FanPct: d.Fan.Or(0), Mode: d.ComputeMode, Perf: d.State,
			MemUseKiB: g.VRAMUsed.Or(0) >> 10, UtilPct: natural(g.Utilization), MemUtilPct: d.MemUtilization.Or(0),
			TempC: g.Temperature.Or(0), PowerW: natural(g.Power), PowerLimitW: natural(d.PowerLimit),
			ClockMHz: g.Frequency.Or(0), MemClockMHz: d.MemClock.Or(0),
		})
	}
	return out
}

// natural is a figure without its fraction, 0 where it is not known.
func natural(v rt.Opt[float64]) uint64 { return uint64(max(0, v.Or(0))) }

// sonarCards describes the GPUs.
func sonarCards(all []rt.GPUReading, details []gpu.Details) []sonar.Card {
	var out []sonar.Card
	for _, g := range wholeGPUs(all) {
		d := detailsOf(details, g.UUID)
		c := sonar.Card{
			BusAddr: g.Detail["pci_bus_id"], Index: uint64(gpuIndex(all, g)), UUID: g.UUID, Manufacturer: "AMD", Model: g.Name,
			Arch: d.Architecture, Driver: g.Detail["driver_version"], Firmware: cmp.Or(d.Firmware, g.Detail["vbios_version"]),
			MemSizeKiB: g.VRAMTotal.Or(0) >> 10, PowerLimitW: natural(d.PowerLimit), MinPowerLimitW: natural(d.MinPowerLimit),
			MaxPowerLimitW: natural(d.MaxPowerLimit), MaxClockMHz: d.MaxClock.Or(0), MaxMemClockMHz: d.MaxMemClock.Or(0),
		}
		if g.Detail["nvml_version"] != "" {
			c.Manufacturer = "NVIDIA"
		}
		out = append(out, c)
	}
	return out
}
