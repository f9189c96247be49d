package main

import (
	"cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/format/sonar"
	sonarconv "github.com/resource-tracker/rt/internal/convert/sonar"
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
		u.gpus = sonarconv.Union(u.gpus, []uint32{sonarconv.GPUIndex(at.host.GPUs, g)})
		u.gpuUse += p.Utilization.Or(0)
		u.gpuBytes += p.VRAMUsed.Or(0)
		if total := g.VRAMTotal.Or(0); total > 0 {
			u.gpuMem += float64(p.VRAMUsed.Or(0)) / float64(total) * 100
		}
		use[int(p.PID)] = u
	}
	return use
}

// sonarCards describes the GPUs.
func sonarCards(all []rt.GPUReading, details []gpu.Details) []sonar.Card {
	var out []sonar.Card
	for _, g := range sonarconv.WholeGPUs(all) {
		d := sonarconv.DetailsOf(details, g.UUID)
		c := sonar.Card{
			BusAddr: g.Detail["pci_bus_id"], Index: uint64(sonarconv.GPUIndex(all, g)), UUID: g.UUID, Manufacturer: "AMD", Model: g.Name,
			Arch: d.Architecture, Driver: g.Detail["driver_version"], Firmware: cmp.Or(d.Firmware, g.Detail["vbios_version"]),
			MemSizeKiB: g.VRAMTotal.Or(0) >> 10, PowerLimitW: sonarconv.Natural(d.PowerLimit), MinPowerLimitW: sonarconv.Natural(d.MinPowerLimit),
			MaxPowerLimitW: sonarconv.Natural(d.MaxPowerLimit), MaxClockMHz: d.MaxClock.Or(0), MaxMemClockMHz: d.MaxMemClock.Or(0),
		}
		if g.Detail["nvml_version"] != "" {
			c.Manufacturer = "NVIDIA"
		}
		out = append(out, c)
	}
	return out
}
