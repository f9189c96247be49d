//go:build cgo

package gpu

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// readProcesses adds the processes that compute on the device: their memory, and their
// utilization since the previous reading. NVML does not have the latter for MIG instances,
// and the processes of a GPU with MIG enabled are on those.
func (g *nvidiaGPU) readProcesses(r *reading, canUse bool) {
	if g.away != nil || g.kind == migParent {
		return
	}
	infos, ret := g.dev.GetComputeRunningProcesses()
	if !g.listed("processes", ret) {
		r.processesShort = r.processesShort || g.away == nil
		return
	}
	from := len(r.processes)
	for i := range infos {
		p := rt.GPUProcessReading{PID: uint64(infos[i].Pid), UUID: g.id.UUID}
		if m := infos[i].UsedGpuMemory; m != math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
			p.VRAMUsed.Set(m)
		}
		r.processes = append(r.processes, p)
	}
	if g.kind == migInstance || !canUse || len(infos) == 0 {
		return
	}
	samples, ret := g.dev.GetProcessUtilization(g.seen)
	if ret != nvml.ERROR_NOT_FOUND && !g.listed("processes' utilization", ret) { // not found: all were idle
		return
	}
	added := r.processes[from:]
	for i := range added {
		added[i].Utilization = rt.Some(newestUse(samples, uint32(added[i].PID)))
	}
	for i := range samples {
		g.seen = max(g.seen, samples[i].TimeStamp)
	}
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
