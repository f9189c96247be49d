//go:build cgo

package gpu

import (
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// processList is a call of NVML for the processes on a device, and its function.
type processList struct {
	what, symbol string
	read         func(dev nvml.Device) ([]nvml.ProcessInfo, nvml.Return)
}

// processLists are the kinds of processes. A process can be of several kinds. The clients of an MPS
// server are of the last one; the server itself is of the first.
var processLists = [...]processList{
	{"processes", "nvmlDeviceGetComputeRunningProcesses", func(dev nvml.Device) ([]nvml.ProcessInfo, nvml.Return) { return dev.GetComputeRunningProcesses() }},
	{"graphics processes", "nvmlDeviceGetGraphicsRunningProcesses", func(dev nvml.Device) ([]nvml.ProcessInfo, nvml.Return) { return dev.GetGraphicsRunningProcesses() }},
	{"MPS clients", "nvmlDeviceGetMPSComputeRunningProcesses", func(dev nvml.Device) ([]nvml.ProcessInfo, nvml.Return) { return dev.GetMPSComputeRunningProcesses() }},
}

// readProcesses adds the processes on the device: their memory, and their utilization since the
// previous reading. NVML does not have the latter for MIG instances, and the processes of a GPU
// with MIG enabled are on those.
func (n *nvidia) readProcesses(g *nvidiaGPU, r *reading) {
	if g.away != nil || g.kind == migParent {
		return
	}
	from := len(r.processes)
	for i := range processLists {
		l := &processLists[i]
		if !n.hasAny(l.symbol) {
			continue
		}
		infos, ret := l.read(g.dev)
		isOptional := i > 0 && answerOf(ret) == impossible
		if !isOptional && !g.listed(l.what, ret) {
			r.processes = r.processes[:from]
			r.processesShort = r.processesShort || g.away == nil
			return
		}
		for k := range infos {
			r.addProcess(from, g.id.UUID, &infos[k])
		}
	}
	added := r.processes[from:]
	if g.kind == whole && n.canUse && len(added) > 0 {
		g.readProcessUse(added)
	}
	if g.accounts {
		g.readAccounting(added, r)
	}
}

// addProcess adds a process, unless it is in r.processes[from:], those on its device.
func (r *reading) addProcess(from int, uuid string, info *nvml.ProcessInfo) {
	p := rt.GPUProcessReading{PID: uint64(info.Pid), UUID: uuid}
	if info.UsedGpuMemory != math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
		p.VRAMUsed.Set(info.UsedGpuMemory)
	}
	i := slices.IndexFunc(r.processes[from:], func(o rt.GPUProcessReading) bool { return o.PID == p.PID })
	if i < 0 {
		r.processes = append(r.processes, p)
		return
	}
	known := &r.processes[from+i]
	if p.VRAMUsed.Valid() {
		known.VRAMUsed.Set(max(p.VRAMUsed.Or(0), known.VRAMUsed.Or(0)))
	}
}

// readProcessUse sets the utilization of processes on the device.
func (g *nvidiaGPU) readProcessUse(added []rt.GPUProcessReading) {
	samples, ret := g.dev.GetProcessUtilization(g.seen)
	if isIdle := isNoSample(ret, len(samples)); !isIdle && !g.listed("processes' utilization", ret) {
		return
	}
	for i := range added {
		added[i].Utilization = rt.Some(newestUse(samples, uint32(added[i].PID)))
	}
	for i := range samples {
		g.seen = max(g.seen, samples[i].TimeStamp)
	}
}

// isNoSample reports whether a call for samples returned that there was none since the previous call.
// Some drivers return an empty list that is too small.
func isNoSample(ret nvml.Return, samples int) bool {
	isEmpty := ret == nvml.ERROR_INSUFFICIENT_SIZE && samples == 0
	return isEmpty || ret == nvml.ERROR_NOT_FOUND
}

// newestUse is the newest sample of a process, in percent; 0 without a sample.
func newestUse(samples []nvml.ProcessUtilizationSample, pid uint32) float64 {
	var newest uint64
	var percent uint32
	for i := range samples {
		if s := &samples[i]; s.Pid == pid && s.TimeStamp >= newest && s.SmUtil <= 100 {
			newest, percent = s.TimeStamp, s.SmUtil
		}
	}
	return float64(percent)
}

// readAccounting sets the highest memory of the processes on the device. It adds processes
// that have ended since the previous reading: the driver still has their figures.
func (g *nvidiaGPU) readAccounting(added []rt.GPUProcessReading, r *reading) {
	before := g.running
	g.running = nil
	for i := range added {
		added[i].VRAMPeak = g.peakOf(added[i].PID)
		g.running = append(g.running, added[i].PID)
	}
	for _, pid := range before {
		if slices.Contains(g.running, pid) {
			continue
		}
		if peak := g.peakOf(pid); peak.Valid() {
			r.ended = append(r.ended, rt.GPUProcessReading{UUID: g.id.UUID, PID: pid, VRAMUsed: rt.Some[uint64](0), Utilization: rt.Some(0.0), VRAMPeak: peak})
		}
	}
}

// peakOf is the highest memory of a process on the device, in bytes, as the driver's accounting has it.
func (g *nvidiaGPU) peakOf(pid uint64) (peak rt.Opt[uint64]) {
	stats, ret := g.dev.GetAccountingStats(uint32(pid))
	if ret == nvml.SUCCESS && stats.MaxMemoryUsage != math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
		peak.Set(stats.MaxMemoryUsage)
	}
	return peak
}

// listed reports whether a call returned its list, and records its error.
func (g *nvidiaGPU) listed(what string, ret nvml.Return) bool {
	switch answerOf(ret) {
	case given:
		return true
	case lost:
		g.lose(ret)
	case failed:
		g.fail(what, ret)
	}
	return false
}
