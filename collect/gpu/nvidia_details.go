//go:build cgo

package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

func (n *nvidia) enableDetails() { n.details = true }

// detail is one call of NVML and the function that it needs: calling one that a library
// does not have ends the process.
type detail struct {
	symbol string
	read   func(dev nvml.Device, to *Details)
}

var details = [...]detail{
	{"nvmlDeviceGetFanSpeed", func(dev nvml.Device, to *Details) {
		percent, ret := dev.GetFanSpeed()
		set(&to.Fan, percent, ret)
	}},
	{"nvmlDeviceGetComputeMode", func(dev nvml.Device, to *Details) {
		if mode, ret := dev.GetComputeMode(); ret == nvml.SUCCESS {
			to.ComputeMode = computeModes[mode]
		}
	}},
	{"nvmlDeviceGetPerformanceState", func(dev nvml.Device, to *Details) {
		if state, ret := dev.GetPerformanceState(); ret == nvml.SUCCESS && state <= nvml.PSTATE_15 {
			to.State = fmt.Sprintf("P%d", state)
		}
	}},
	{"nvmlDeviceGetUtilizationRates", func(dev nvml.Device, to *Details) {
		use, ret := dev.GetUtilizationRates()
		set(&to.MemUtilization, use.Memory, ret)
	}},
	{"nvmlDeviceGetClockInfo", func(dev nvml.Device, to *Details) {
		mhz, ret := dev.GetClockInfo(nvml.CLOCK_MEM)
		set(&to.MemClock, mhz, ret)
	}},
	{"nvmlDeviceGetMaxClockInfo", func(dev nvml.Device, to *Details) {
		mhz, ret := dev.GetMaxClockInfo(nvml.CLOCK_GRAPHICS)
		set(&to.MaxClock, mhz, ret)
		mhz, ret = dev.GetMaxClockInfo(nvml.CLOCK_MEM)
		set(&to.MaxMemClock, mhz, ret)
	}},
	{"nvmlDeviceGetPowerManagementLimit", func(dev nvml.Device, to *Details) {
		milliwatts, ret := dev.GetPowerManagementLimit()
		setWatts(&to.PowerLimit, milliwatts, ret)
	}},
	{"nvmlDeviceGetPowerManagementLimitConstraints", func(dev nvml.Device, to *Details) {
		low, high, ret := dev.GetPowerManagementLimitConstraints()
		setWatts(&to.MinPowerLimit, low, ret)
		setWatts(&to.MaxPowerLimit, high, ret)
	}},
	{"nvmlDeviceGetArchitecture", func(dev nvml.Device, to *Details) {
		if of, ret := dev.GetArchitecture(); ret == nvml.SUCCESS {
			to.Architecture = architectures[of]
		}
	}},
	{"nvmlDeviceGetVbiosVersion", func(dev nvml.Device, to *Details) {
		if version, ret := dev.GetVbiosVersion(); ret == nvml.SUCCESS {
			to.Firmware = version
		}
	}},
}

// computeModes are the names that nvidia-smi prints.
var computeModes = map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_EXCLUSIVE_THREAD: "Exclusive_Thread", nvml.COMPUTEMODE_PROHIBITED: "Prohibited",
	nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "Exclusive_Process",
}

var architectures = map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER: "Kepler", nvml.DEVICE_ARCH_MAXWELL: "Maxwell", nvml.DEVICE_ARCH_PASCAL: "Pascal",
	nvml.DEVICE_ARCH_VOLTA: "Volta", nvml.DEVICE_ARCH_TURING: "Turing", nvml.DEVICE_ARCH_AMPERE: "Ampere",
	nvml.DEVICE_ARCH_ADA: "Ada", nvml.DEVICE_ARCH_HOPPER: "Hopper", nvml.DEVICE_ARCH_BLACKWELL: "Blackwell",
}

func set(to *rt.Opt[uint64], v uint32, ret nvml.Return) {
	if ret == nvml.SUCCESS {
		to.Set(uint64(v))
	}
}

func setWatts(to *rt.Opt[float64], milliwatts uint32, ret nvml.Return) {
	if ret == nvml.SUCCESS {
		to.Set(float64(milliwatts) / 1000)
	}
}

// readDetails reads the Details of a GPU. A property that it does not have is left out.
func (n *nvidia) readDetails(g *nvidiaGPU, r *reading) {
	if g.kind == migInstance || g.away != nil {
		return
	}
	d := Details{UUID: g.id.UUID}
	for i := range details {
		if n.lib.Extensions().LookupSymbol(details[i].symbol) == nil {
			details[i].read(g.dev, &d)
		}
	}
	r.details = append(r.details, d)
}
