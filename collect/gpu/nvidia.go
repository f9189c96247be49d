//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvidia asks NVIDIA's driver through NVML, libnvidia-ml.so.1.
type nvidia struct {
	lib       nvml.Interface
	processes bool
	details   bool

	opened bool
	failed error     // why it is not
	again  time.Time // when to try again, or to list the GPUs again
	stale  bool      // a MIG instance is gone: list them now
	can    abilities

	driverVersion, nvmlVersion, cudaVersion string

	gpus    []nvidiaGPU
	missing error // GPUs of which not even the name is known
}

// abilities are functions that not every NVML has. One that is called and not there
// ends the process, so the library is asked for them first.
type abilities struct {
	cuda, cores, mig, attributes, memory2, processUse, energy bool
}

func newNVIDIA(processes bool) driver {
	return &nvidia{lib: nvml.New(), processes: processes}
}

func (n *nvidia) vendor() string { return "NVIDIA" }

func (n *nvidia) close() {
	if n.opened {
		n.lib.Shutdown() // its failure leaves nothing to do
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

// open loads the library and begins to use the driver.
func (n *nvidia) open() error {
	ret := n.lib.Init()
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("the node has NVIDIA's driver but libnvidia-ml.so.1 cannot be loaded (%w): install the driver's libraries", fs.ErrNotExist)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("NVIDIA's kernel module is not loaded (%w): nvidia-smi shows why", fs.ErrNotExist)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("NVIDIA's library and kernel module are of different versions (%w): load the module anew or reboot", ret)
	default:
		return fmt.Errorf("begin to use NVIDIA's driver: %w", nvmlError(ret))
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

// list finds the GPUs and their MIG instances. A GPU that was known and does not
// answer stays in the list, as lost.
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

// keep takes GPU i over from the list before, with its MIG instances.
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

// answer is what a Return says of the value that was asked for.
type answer uint8

const (
	given      answer = iota
	impossible        // this device has no such value
	lost              // the device is there no more
	failed            // it should have been given
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

// nvmlError is ret as an error that the ledger knows the kind of.
func nvmlError(ret nvml.Return) error {
	if ret == nvml.ERROR_NO_PERMISSION {
		return fmt.Errorf("%w: %w", fs.ErrPermission, ret)
	}
	return ret
}
