//go:build cgo

package gpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// nvidiaGPU is one device of the list: a GPU or a MIG instance.
type nvidiaGPU struct {
	dev     nvml.Device
	index   int           // NVML's, of the GPU, as nvidia-smi counts
	id      rt.GPUReading // the values that do not change
	kind    kind
	memory2 bool // read memory without the part that the driver reserves

	samples  bool // the driver keeps samples of its utilization
	accounts bool // the driver accounts for its processes
	history

	away    error // it is lost, and not read again before the next list
	trouble error // of the newest reading
	stale   bool  // the instance was removed
}

// history is what a reading of a device needs of those before it.
type history struct {
	counter energyCounter
	sampled uint64   // microseconds: the newest sample of its utilization
	seen    uint64   // microseconds: the newest sample of its processes
	running []uint64 // its processes
}

// kind is the kind of a device of the list.
type kind uint8

const (
	whole       kind = iota
	migParent        // a GPU with MIG on
	migInstance      // one of its instances
)

// value is one value of a device.
type value struct {
	what string
	read func(g *nvidiaGPU, to *rt.GPUReading) nvml.Return
}

var (
	utilization = value{what: "utilization", read: (*nvidiaGPU).utilization}
	memory      = value{what: "memory", read: (*nvidiaGPU).memory}
	temperature = value{what: "temperature", read: (*nvidiaGPU).temperature}
	power       = value{what: "power", read: (*nvidiaGPU).power}
	clock       = value{what: "graphics clock", read: (*nvidiaGPU).clock}
	energy      = value{what: "total energy", read: (*nvidiaGPU).energy}

	// values are the values of each kind of device.
	values = [...][]value{
		whole:       {utilization, memory, temperature, power, clock, energy},
		migParent:   {temperature, power, clock, energy},
		migInstance: {memory},
	}
)

// add appends GPU i to the list, and its MIG instances after it.
func (n *nvidia) add(dev nvml.Device, i int) nvml.Return {
	g := nvidiaGPU{dev: dev, index: i, kind: whole, memory2: n.has("nvmlDeviceGetMemoryInfo_v2")}
	g.counter.can = n.has("nvmlDeviceGetTotalEnergyConsumption")
	g.id = rt.GPUReading{Type: "GPU", Host: strconv.Itoa(i), Detail: map[string]string{}}
	var ret nvml.Return
	g.id.UUID, ret = dev.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	g.id.Name, ret = dev.GetName()
	if answerOf(ret) == lost {
		return ret
	}
	if n.has("nvmlDeviceGetNumGpuCores") {
		if cores, ret := dev.GetNumGpuCores(); ret == nvml.SUCCESS && cores > 0 {
			g.id.Cores.Set(uint64(cores))
		}
	}
	if pci, ret := dev.GetPciInfo(); ret == nvml.SUCCESS {
		bus, _, _ := bytes.Cut(pci.BusId[:], []byte{0})
		g.detail("pci_bus_id", string(bus))
	}
	if minor, ret := dev.GetMinorNumber(); ret == nvml.SUCCESS {
		g.detail("minor_number", strconv.Itoa(minor))
	}
	g.detail("driver_version", n.driverVersion)
	g.detail("nvml_version", n.nvmlVersion)
	g.detail("cuda_version", n.cudaVersion)
	mode := nvml.DEVICE_MIG_DISABLE
	if n.has("nvmlDeviceGetMigMode") && n.has("nvmlDeviceGetMaxMigDeviceCount") && n.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		if current, _, ret := dev.GetMigMode(); ret == nvml.SUCCESS {
			mode = current
		}
	}
	g.accounts = n.accountsOf(dev)
	if mode != nvml.DEVICE_MIG_ENABLE {
		n.findSamples(&g)
		n.gpus = append(n.gpus, g)
		return nvml.SUCCESS
	}
	g.kind = migParent
	g.detail("mig_mode", "enabled")
	n.gpus = append(n.gpus, g)
	n.addInstances(&g)
	return nvml.SUCCESS
}

// addInstances appends the MIG instances of a GPU to the list. Their numbers have gaps.
func (n *nvidia) addInstances(parent *nvidiaGPU) {
	count, ret := parent.dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		n.missing = errors.Join(n.missing, fmt.Errorf("count the MIG instances of NVIDIA GPU %d: %w", parent.index, nvmlError(ret)))
		return
	}
	for i := range count {
		dev, ret := parent.dev.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret == nvml.SUCCESS {
			ret = n.addInstance(parent, dev, i, count)
		}
		if ret != nvml.SUCCESS {
			n.missing = errors.Join(n.missing, fmt.Errorf("find MIG instance %d of NVIDIA GPU %d: %w", i, parent.index, nvmlError(ret)))
		}
	}
}

// addInstance appends instance i. slices is the number of compute slices of the GPU, which
// is also its greatest number of instances. For two of seven slices "mig_compute_slices" is
// "2/7".
func (n *nvidia) addInstance(parent *nvidiaGPU, dev nvml.Device, i, slices int) nvml.Return {
	g := nvidiaGPU{dev: dev, index: parent.index, kind: migInstance, memory2: parent.memory2}
	g.id = rt.GPUReading{Type: "GPU", Host: parent.id.Host + ":" + strconv.Itoa(i), Detail: map[string]string{}}
	var ret nvml.Return
	g.id.UUID, ret = dev.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	g.id.Name, ret = dev.GetName()
	if ret != nvml.SUCCESS {
		g.id.Name = parent.id.Name + " MIG"
	}
	g.accounts = n.accountsOf(dev)
	if id, ret := dev.GetGpuInstanceId(); ret == nvml.SUCCESS {
		g.detail("gpu_instance_id", strconv.Itoa(id))
	}
	if id, ret := dev.GetComputeInstanceId(); ret == nvml.SUCCESS {
		g.detail("compute_instance_id", strconv.Itoa(id))
	}
	g.detail("parent_uuid", parent.id.UUID)
	if n.has("nvmlDeviceGetAttributes_v2") {
		if a, ret := dev.GetAttributes(); ret == nvml.SUCCESS && a.ComputeInstanceSliceCount > 0 && int(a.ComputeInstanceSliceCount) <= slices {
			g.detail("mig_compute_slices", fmt.Sprintf("%d/%d", a.ComputeInstanceSliceCount, slices))
		}
	}
	for _, key := range [...]string{"pci_bus_id", "driver_version", "nvml_version", "cuda_version"} {
		g.detail(key, parent.id.Detail[key])
	}
	n.gpus = append(n.gpus, g)
	return nvml.SUCCESS
}

func (g *nvidiaGPU) detail(key, value string) {
	if value != "" {
		g.id.Detail[key] = value
	}
}

// read reads all values of the device and adds it to r.
func (g *nvidiaGPU) read(r *reading) {
	g.trouble = g.away
	g.counter.now.Clear()
	now := g.id
	for i := range values[g.kind] {
		if g.away != nil {
			break
		}
		v := &values[g.kind][i]
		ret := v.read(g, &now)
		switch answerOf(ret) {
		case lost:
			g.lose(ret)
			now = g.id
		case failed:
			g.fail(v.what, ret)
		}
	}
	if total := now.VRAMTotal; total.Valid() {
		g.id.VRAMTotal = total
	}
	r.devices = append(r.devices, now)
	if g.counter.now.Valid() {
		r.energy = append(r.energy, rt.EnergyReading{Source: "gpu", Domain: g.id.UUID, Kind: rt.EnergyGPU, Energy: g.counter.now})
	}
}

// lose marks the device as lost.
func (g *nvidiaGPU) lose(ret nvml.Return) {
	g.away = fmt.Errorf("NVIDIA GPU %s (%s, PCI %s) is lost: %w: its values are absent; see the Xid message in the kernel's log, and reset the GPU or reboot the node",
		g.id.Host, g.id.UUID, g.id.Detail["pci_bus_id"], nvmlError(ret))
	g.trouble = g.away
}

// fail records a failed reading. An instance with an invalid handle was destroyed.
func (g *nvidiaGPU) fail(what string, ret nvml.Return) {
	isInvalid := ret == nvml.ERROR_INVALID_ARGUMENT || ret == nvml.ERROR_NOT_FOUND
	if g.kind == migInstance && isInvalid {
		g.stale = true
	}
	if g.trouble == nil {
		g.trouble = fmt.Errorf("NVIDIA GPU %s (%s): read its %s: %w", g.id.Host, g.id.UUID, what, nvmlError(ret))
	}
}

// accountsOf reports whether the driver accounts for the processes on a device.
func (n *nvidia) accountsOf(dev nvml.Device) bool {
	if !n.has("nvmlDeviceGetAccountingMode") || !n.has("nvmlDeviceGetAccountingStats") {
		return false
	}
	mode, ret := dev.GetAccountingMode()
	return ret == nvml.SUCCESS && mode == nvml.FEATURE_ENABLED
}

// findSamples finds out whether the driver keeps samples of the GPU's utilization. Those that it has
// are of the time before the first reading.
func (n *nvidia) findSamples(g *nvidiaGPU) {
	if !n.has("nvmlDeviceGetSamples") {
		return
	}
	_, newest, ret := g.meanOfSamples()
	g.samples = ret == nvml.SUCCESS
	if g.samples {
		g.sampled = newest
		g.detail(rt.BusyOf, rt.BusyOfInterval)
	}
}

// meanOfSamples returns the mean utilization in percent of the samples since the newest
// known one, and the time of the newest sample in microseconds. The driver keeps about 100
// samples, one each 1/6 to 1 s.
func (g *nvidiaGPU) meanOfSamples() (mean rt.Opt[float64], newest uint64, ret nvml.Return) {
	newest = g.sampled
	_, samples, ret := g.dev.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, g.sampled)
	if isNoSample(ret, len(samples)) {
		return mean, newest, nvml.SUCCESS
	}
	if ret != nvml.SUCCESS {
		return mean, newest, ret
	}
	sum, n := 0.0, 0
	for i := range samples {
		percent := binary.NativeEndian.Uint32(samples[i].SampleValue[:])
		isNew := samples[i].TimeStamp > g.sampled // the end of the list can be empty
		if isNew && percent <= 100 {
			sum, n = sum+float64(percent), n+1
			newest = max(newest, samples[i].TimeStamp)
		}
	}
	if n > 0 {
		mean.Set(sum / float64(n))
	}
	return mean, newest, ret
}

// utilization reads the mean since the previous reading; where the driver has no sample since then,
// its newest one.
func (g *nvidiaGPU) utilization(to *rt.GPUReading) nvml.Return {
	if g.samples {
		mean, newest, ret := g.meanOfSamples()
		g.sampled = newest
		if ret == nvml.SUCCESS && mean.Valid() {
			to.Utilization = mean
			return ret
		}
	}
	u, ret := g.dev.GetUtilizationRates()
	if ret == nvml.SUCCESS && u.Gpu > 100 {
		return nvml.ERROR_UNKNOWN
	}
	if ret == nvml.SUCCESS {
		to.Utilization.Set(float64(u.Gpu))
	}
	return ret
}

// memory reads the memory in use as nvidia-smi shows it: without the part that the driver
// reserves, which drivers before 510 include.
func (g *nvidiaGPU) memory(to *rt.GPUReading) nvml.Return {
	var total, used uint64
	ret := nvml.ERROR_NOT_SUPPORTED
	if g.memory2 {
		var m nvml.Memory_v2
		m, ret = g.dev.GetMemoryInfo_v2()
		total, used = m.Total, m.Used
		g.memory2 = answerOf(ret) != impossible && ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH
	}
	if !g.memory2 {
		var m nvml.Memory
		m, ret = g.dev.GetMemoryInfo()
		total, used = m.Total, m.Used
	}
	if ret == nvml.SUCCESS && used > total {
		return nvml.ERROR_UNKNOWN
	}
	if ret == nvml.SUCCESS {
		to.VRAMTotal.Set(total)
		to.VRAMUsed.Set(used)
	}
	return ret
}

func (g *nvidiaGPU) temperature(to *rt.GPUReading) nvml.Return {
	degrees, ret := g.dev.GetTemperature(nvml.TEMPERATURE_GPU)
	set(&to.Temperature, degrees, ret)
	return ret
}

func (g *nvidiaGPU) power(to *rt.GPUReading) nvml.Return {
	milliwatts, ret := g.dev.GetPowerUsage()
	setWatts(&to.Power, milliwatts, ret)
	return ret
}

func (g *nvidiaGPU) clock(to *rt.GPUReading) nvml.Return {
	mhz, ret := g.dev.GetClockInfo(nvml.CLOCK_GRAPHICS)
	set(&to.Frequency, mhz, ret)
	return ret
}

// energyCounter is the energy that a GPU has used since its first reading. The driver counts
// in millijoules since it was loaded.
type energyCounter struct {
	can   bool // the driver counts
	known bool // last is valid
	last  uint64
	total uint64
	now   rt.Opt[uint64] // microjoules; absent if it was not read this time
}

func (g *nvidiaGPU) energy(*rt.GPUReading) nvml.Return {
	c := &g.counter
	if !c.can {
		return nvml.ERROR_NOT_SUPPORTED
	}
	millijoules, ret := g.dev.GetTotalEnergyConsumption()
	if ret != nvml.SUCCESS {
		return ret
	}
	if c.known && millijoules >= c.last {
		c.total += millijoules - c.last
	}
	c.last, c.known = millijoules, true
	c.now.Set(1000 * c.total)
	return ret
}
