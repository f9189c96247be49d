//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// nvidia reads NVIDIA's driver through NVML, libnvidia-ml.so.1.
type nvidia struct {
	lib       nvml.Interface
	processes bool
	details   bool

	opened bool
	failed error     // of opening it
	again  time.Time // of the next attempt to open it, or to list the GPUs
	stale  bool      // a MIG instance was removed: list the GPUs now
	canUse bool      // it lists the utilization of processes

	driverVersion, nvmlVersion, cudaVersion string

	gpus    []nvidiaGPU
	missing error // GPUs without even a name
}

// has reports whether NVML has a function: calling a missing one ends the process.
func (n *nvidia) has(symbol string) bool { return n.lib.Extensions().LookupSymbol(symbol) == nil }

// hasAny reports whether NVML has a function in any of its versions.
func (n *nvidia) hasAny(symbol string) bool {
	return n.has(symbol) || n.has(symbol+"_v2") || n.has(symbol+"_v3")
}

func newNVIDIA(processes, details bool) driver {
	return &nvidia{lib: nvml.New(), processes: processes, details: details}
}

func (n *nvidia) vendor() string { return "NVIDIA" }

func (n *nvidia) close() {
	if n.opened {
		n.lib.Shutdown() // after an error there is nothing to do
		n.opened = false
	}
}

func (n *nvidia) read(r *reading) {
	if now := time.Now(); n.stale || !now.Before(n.again) {
		n.again, n.stale = now.Add(lookAgain), false
		if !n.opened {
			n.failed = n.open()
		}
		if n.opened {
			n.list()
		}
	}
	if n.failed != nil {
		r.missing, r.processesShort = true, true
		r.fail(n.failed)
		return
	}
	r.fail(n.missing)
	if n.missing != nil {
		r.missing, r.processesShort = true, true
	}
	for i := range n.gpus {
		g := &n.gpus[i]
		g.read(r)
		if n.processes {
			n.readProcesses(g, r)
		}
		if n.details {
			n.readDetails(g, r)
		}
		n.stale = n.stale || g.stale
		r.fail(g.trouble)
	}
}

// open loads the library and initializes the driver.
func (n *nvidia) open() error {
	ret := n.lib.Init()
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("the node has NVIDIA's driver but libnvidia-ml.so.1 cannot be loaded (%w): install the driver's libraries", fs.ErrNotExist)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("NVIDIA's kernel module is not loaded (%w): nvidia-smi shows the reason", fs.ErrNotExist)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("NVIDIA's library and kernel module are of different versions (%w): reload the module or reboot", ret)
	default:
		return fmt.Errorf("initialize NVIDIA's driver: %w", nvmlError(ret))
	}
	n.opened = true
	n.canUse = n.has("nvmlDeviceGetProcessUtilization")
	n.driverVersion, n.nvmlVersion, n.cudaVersion = "", "", ""
	if v, ret := n.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		n.driverVersion = v
	}
	if v, ret := n.lib.SystemGetNVMLVersion(); ret == nvml.SUCCESS {
		n.nvmlVersion = v
	}
	if n.has("nvmlSystemGetCudaDriverVersion") {
		if v, ret := n.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			n.cudaVersion = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
	return nil
}

// list finds the GPUs and MIG instances. A known GPU without an answer stays, as lost.
func (n *nvidia) list() {
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		n.missing = fmt.Errorf("count the NVIDIA GPUs: %w", nvmlError(ret))
		return
	}
	before := n.gpus
	n.gpus, n.missing = make([]nvidiaGPU, 0, max(count, len(before))), nil
	for i := range count {
		dev, ret := n.lib.DeviceGetHandleByIndex(i)
		if ret == nvml.SUCCESS {
			ret = n.add(dev, i)
		}
		if ret != nvml.SUCCESS && !n.keep(before, i, ret) {
			n.missing = errors.Join(n.missing, fmt.Errorf("find NVIDIA GPU %d: %w", i, nvmlError(ret)))
		}
	}
	for i := range n.gpus {
		g := &n.gpus[i]
		for k := range before {
			if before[k].id.UUID == g.id.UUID {
				g.history = before[k].history
			}
		}
	}
}

// keep takes over GPU i and its MIG instances from the previous list.
func (n *nvidia) keep(before []nvidiaGPU, i int, ret nvml.Return) bool {
	kept := false
	for _, g := range before {
		if g.index == i {
			g.lose(ret)
			n.gpus = append(n.gpus, g)
			kept = true
		}
	}
	return kept
}

// answer classifies the Return of a call for a value.
type answer uint8

const (
	given      answer = iota
	impossible        // this device does not have the value
	lost              // the device does not exist any more
	failed            // the call should have succeeded
)

func answerOf(ret nvml.Return) answer {
	switch ret {
	case nvml.SUCCESS:
		return given
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_DATA:
		return impossible
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_RESET_REQUIRED:
		return lost
	}
	return failed
}

// nvmlError wraps ret in an error that has a status in the ledger.
func nvmlError(ret nvml.Return) error {
	if ret == nvml.ERROR_NO_PERMISSION {
		return fmt.Errorf("%w: %w", fs.ErrPermission, ret)
	}
	return ret
}

// detail is one call of NVML and the function that it needs.
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
		if n.has(details[i].symbol) {
			details[i].read(g.dev, &d)
		}
	}
	r.details = append(r.details, d)
}
