package doctor

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
)

const gpuMeaning = "the GPUs of jobs are not recorded"

// gpuChecks check the GPUs and their driver.
type gpuChecks struct{ *Doctor }

// run checks that trackers can read the GPUs: NVIDIA's with NVML, a library of the driver, AMD's from /sys.
func (d gpuChecks) run(ctx context.Context) {
	text, err := d.read("/proc/driver/nvidia/version")
	hasNVIDIA, hasAMD := err == nil, d.exists("/sys/module/amdgpu")
	switch {
	case hasNVIDIA:
		line, _, _ := strings.Cut(text, "\n")
		d.add(ok("gpu.driver", "%s", strings.TrimSpace(strings.TrimPrefix(line, "NVRM version:"))))
	case hasAMD:
		d.add(ok("gpu.driver", "amdgpu"))
	default:
		if n := d.countUnused(); n > 0 {
			d.add(warn("gpu.driver", fmt.Sprintf("%d GPUs of NVIDIA, and its driver is not loaded", n), gpuMeaning, "modprobe nvidia; dmesg shows why it fails"))
			return
		}
		d.add(ok("gpu.driver", "no GPU"))
		return
	}
	if devices, _ := filepath.Glob(d.path("/dev/nvidia[0-9]*")); hasNVIDIA && len(devices) == 0 {
		d.add(warn("gpu.devices", "there is no /dev/nvidia0", gpuMeaning, "nvidia-modprobe -u -c=0, or start nvidia-persistenced"))
		return
	}
	gpus, err := d.GPUs(ctx)
	if err != nil {
		d.add(warn("gpu.devices", err.Error(), "GPUs are missing in the records of jobs", "nvidia-smi, or dmesg, shows the state of the driver"))
	} else {
		d.add(ok("gpu.devices", "%s", names(gpus)))
	}
	d.describeNVIDIA(gpus)
}

// countUnused returns the number of NVIDIA's display and 3D controllers on the PCI bus.
func (d gpuChecks) countUnused() (n int) {
	found, _ := filepath.Glob(d.path("/sys/bus/pci/devices/*"))
	for _, device := range found {
		name := "/" + strings.TrimPrefix(strings.TrimPrefix(device, d.Root), "/")
		vendor, _ := d.read(filepath.Join(name, "vendor"))
		class, _ := d.read(filepath.Join(name, "class"))
		if vendor == "0x10de" && strings.HasPrefix(class, "0x03") {
			n++
		}
	}
	return n
}

// names returns the names of GPUs, each with how many there are. MIG instances are not among them.
func names(gpus []rt.GPUReading) string {
	var order []string
	count := map[string]int{}
	for i := range gpus {
		if isInstance(&gpus[i]) {
			continue
		}
		if count[gpus[i].Name] == 0 {
			order = append(order, gpus[i].Name)
		}
		count[gpus[i].Name]++
	}
	for i, name := range order {
		order[i] = fmt.Sprintf("%d x %s", count[name], cmp.Or(name, "a GPU without a name"))
	}
	return cmp.Or(strings.Join(order, ", "), "no GPU")
}

// isInstance reports whether a device is a MIG instance.
func isInstance(g *rt.GPUReading) bool { return g.Detail["parent_uuid"] != "" }

// describeNVIDIA adds the versions of the libraries, and what MIG means for records.
func (d gpuChecks) describeNVIDIA(gpus []rt.GPUReading) {
	enabled, instances := 0, 0
	version := ""
	for i := range gpus {
		detail := gpus[i].Detail
		version = cmp.Or(version, detail["nvml_version"])
		if detail["mig_mode"] == "enabled" {
			enabled++
		}
		if isInstance(&gpus[i]) {
			instances++
		}
	}
	if version != "" {
		d.add(ok("gpu.nvml", "NVML %s", version))
	}
	switch {
	case enabled > 0 && instances == 0:
		d.add(warn("gpu.mig", fmt.Sprintf("MIG is enabled on %d GPUs, and there is no instance", enabled), "no job can use these GPUs", "nvidia-smi mig -cgi PROFILE -C, or nvidia-smi -mig 0"))
	case enabled > 0:
		d.add(ok("gpu.mig", "%d instances on %d GPUs; the utilization of a GPU with MIG is absent in records", instances, enabled))
	}
}
