package doctor

import (
	"path/filepath"
	"strings"
)

// libraries are where the library of the NVIDIA driver can be.
var libraries = []string{"/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64/nvidia", "/usr/local/nvidia/lib64"}

// checkGPU checks that trackers can read NVIDIA GPUs. They load the library NVML of the driver.
func (d *Doctor) checkGPU() {
	const name = "gpu.nvml"
	text, err := d.read("/proc/driver/nvidia/version")
	if err != nil {
		d.ok("gpu.driver", "no NVIDIA driver is loaded")
		return
	}
	line, _, _ := strings.Cut(text, "\n")
	d.ok("gpu.driver", "%s", strings.TrimPrefix(line, "NVRM version: "))
	found := ""
	for _, dir := range libraries {
		if file := filepath.Join(dir, "libnvidia-ml.so.1"); d.exists(file) {
			found = file
		}
	}
	if found == "" {
		d.warn(name, "libnvidia-ml.so.1 is not in "+strings.Join(libraries, ", "), "the GPUs of jobs are not recorded", "install the package of the driver that has NVML, for example libnvidia-ml1")
	} else {
		d.ok(name, "%s", found)
	}
	if devices, _ := filepath.Glob(d.path("/dev/nvidia[0-9]*")); len(devices) == 0 {
		d.warn("gpu.devices", "there is no /dev/nvidia0", "the GPUs of jobs are not recorded", "nvidia-modprobe -u -c=0, or start nvidia-persistenced")
	} else {
		d.ok("gpu.devices", "%d devices", len(devices))
	}
	if instances, _ := filepath.Glob(d.path("/proc/driver/nvidia/capabilities/gpu*/mig/gi*")); len(instances) > 0 {
		d.ok("gpu.mig", "%d GPU instances; with MIG the utilization of a GPU is absent", len(instances))
	}
}
