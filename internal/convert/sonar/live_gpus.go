package sonar

import (
	"cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/format/sonar"
)

// GPUSource is the part of gpu.Source that ReadMachine and WriteSysinfo use.
type GPUSource interface {
	gpu.Reader
	Processes([]rt.GPUProcessReading) []rt.GPUProcessReading
	Details([]gpu.Details) []gpu.Details
}

// keptGPUs keeps the processes and details of the reading that gpu.ReadOnce takes, which
// closes the source.
type keptGPUs struct {
	GPUSource
	processes []rt.GPUProcessReading
	details   []gpu.Details
}

func (k *keptGPUs) Read(snap *rt.Snapshot) error {
	err := k.GPUSource.Read(snap)
	k.processes, k.details = k.Processes(k.processes[:0]), k.Details(k.details[:0])
	return err
}

// gpuUse returns the use of the GPUs by process id.
func (m *Machine) gpuUse() map[int]process {
	byUUID := map[string]*rt.GPUReading{}
	for i := range m.snap.GPUs {
		byUUID[m.snap.GPUs[i].UUID] = &m.snap.GPUs[i]
	}
	use := map[int]process{}
	for _, p := range m.gpus {
		g, ok := byUUID[p.UUID]
		if !ok {
			continue
		}
		u := use[int(p.PID)]
		u.gpus = union(u.gpus, []uint32{gpuIndex(m.snap.GPUs, g)})
		u.gpuUse += p.Utilization.Or(0)
		u.gpuBytes += p.VRAMUsed.Or(0)
		if total := g.VRAMTotal.Or(0); total > 0 {
			u.gpuMem += float64(p.VRAMUsed.Or(0)) / float64(total) * 100
		}
		use[int(p.PID)] = u
	}
	return use
}

// cards describes the GPUs.
func cards(all []rt.GPUReading, details []gpu.Details) []sonar.Card {
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
