//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
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
	can    abilities

	driverVersion, nvmlVersion, cudaVersion string

	gpus    []nvidiaGPU
	missing error // GPUs without even a name
}

// abilities are functions that not every NVML has. Calling a missing function ends the
// process, so their symbols are looked up first.
type abilities struct {
	cuda, cores, mig, attributes, memory2, processUse, energy bool
}

func newNVIDIA(processes bool) driver {
	return &nvidia{lib: nvml.New(), processes: processes}
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
		r.usageShort, r.vramShort, r.processesShort = true, true, true
		r.fail(n.failed)
		return
	}
	r.fail(n.missing)
	for i := range n.gpus {
		g := &n.gpus[i]
		g.read(r)
		if n.processes {
			g.readProcesses(r, n.can.processUse)
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
	has := func(symbol string) bool { return n.lib.Extensions().LookupSymbol(symbol) == nil }
	n.can = abilities{
		cuda:       has("nvmlSystemGetCudaDriverVersion"),
		cores:      has("nvmlDeviceGetNumGpuCores"),
		mig:        has("nvmlDeviceGetMigMode") && has("nvmlDeviceGetMaxMigDeviceCount") && has("nvmlDeviceGetMigDeviceHandleByIndex"),
		attributes: has("nvmlDeviceGetAttributes_v2"),
		memory2:    has("nvmlDeviceGetMemoryInfo_v2"),
		processUse: has("nvmlDeviceGetProcessUtilization"),
		energy:     has("nvmlDeviceGetTotalEnergyConsumption"),
	}
	n.driverVersion, n.nvmlVersion, n.cudaVersion = "", "", ""
	if v, ret := n.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		n.driverVersion = v
	}
	if v, ret := n.lib.SystemGetNVMLVersion(); ret == nvml.SUCCESS {
		n.nvmlVersion = v
	}
	if n.can.cuda {
		if v, ret := n.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			n.cudaVersion = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
	return nil
}

// list finds the GPUs and their MIG instances. A known GPU that does not answer stays in
// the list, as lost.
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
				g.seen, g.counter = before[k].seen, before[k].counter
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
