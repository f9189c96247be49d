//go:build cgo

package gpu

import (
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// TestNVIDIADetails: a GPU that says all, one that says nothing, and a library that
// lacks a function.
func TestNVIDIADetails(t *testing.T) {
	s := newServer(2, h100)
	for i, d := range s.devices {
		ret := nvml.SUCCESS
		if i == 1 {
			ret = nvml.ERROR_NOT_SUPPORTED
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, ret }
		} else {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 100, Memory: 40}, ret }
		}
		d.GetFanSpeedFunc = func() (uint32, nvml.Return) { return 105, ret }
		d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, ret }
		d.GetPerformanceStateFunc = func() (nvml.Pstates, nvml.Return) { return nvml.PSTATE_0, ret }
		graphics := d.GetClockInfoFunc
		d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
			if c == nvml.CLOCK_MEM {
				return 2619, ret
			}
			return graphics(c)
		}
		d.GetMaxClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_GRAPHICS: 1980, nvml.CLOCK_MEM: 2620}[c], ret
		}
		d.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 650_500, ret }
		d.GetPowerManagementLimitConstraintsFunc = func() (uint32, uint32, nvml.Return) { return 200_000, 700_000, ret }
		d.GetArchitectureFunc = func() (nvml.DeviceArchitecture, nvml.Return) { return nvml.DEVICE_ARCH_HOPPER, ret }
		d.GetVbiosVersionFunc = func() (string, nvml.Return) { return "96.00.61", ret }
	}
	s.lacks["nvmlDeviceGetArchitecture"] = true
	src := with(&nvidia{lib: s, details: true})
	src.maxWait = ample
	read(t, src)
	want := []Details{{
		UUID: "GPU-0000", Fan: rt.Some[uint64](105), ComputeMode: "Exclusive_Process", State: "P0", MemUtilization: rt.Some[uint64](40),
		MemClock: rt.Some[uint64](2619), PowerLimit: rt.Some(650.5), MinPowerLimit: rt.Some(200.0), MaxPowerLimit: rt.Some(700.0),
		MaxClock: rt.Some[uint64](1980), MaxMemClock: rt.Some[uint64](2620), Firmware: "96.00.61",
	}, {UUID: "GPU-0001"}}
	if got := src.Details(); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
