package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// kernelChecks check what the kernel offers to trackers.
type kernelChecks struct{ *Doctor }

func (d kernelChecks) run() {
	d.checkCgroups()
	d.checkInotify()
	d.add(d.checkRAPL())
	d.add(d.checkPerf())
}

// release returns the version of the kernel as major and minor.
func (d kernelChecks) release() (v version, text string, err error) {
	text, err = d.read("/proc/sys/kernel/osrelease")
	if err != nil {
		return v, text, err
	}
	_, err = fmt.Sscanf(text, "%d.%d", &v.year, &v.month)
	return v, text, err
}

func (d kernelChecks) checkCgroups() {
	const name = "kernel.cgroup"
	m, err := cgroupfs.ReadMounts(d.path("/proc"))
	if err != nil {
		d.add(unknown(name, err))
		return
	}
	switch {
	case len(m.V1) > 0 && m.V1["memory"]+m.V1["cpuacct"]+m.V1["freezer"] != "":
		for _, controller := range []string{"freezer", "cpuacct", "memory"} {
			if m.V1[controller] == "" {
				d.add(fail("kernel.controllers", "cgroup v1 without the controller "+controller, meaningOf[controller], "remove cgroup_disable="+controller+" from the kernel's command line, and mount the controller"))
			}
		}
		d.add(ok(name, "version 1"))
		d.okUnless(0, "kernel.controllers", "freezer, cpuacct and memory are mounted")
	case m.V2 == "":
		d.add(fail(name, "no cgroup file system is mounted", "nothing of a job can be read", "mount -t cgroup2 none /sys/fs/cgroup"))
	default:
		d.add(ok(name, "version 2 at %s", m.V2))
		d.checkControllers(m.V2)
		d.add(d.checkPressure())
		d.add(d.checkPeak(m.V2))
	}
}

// meaningOf has what a missing controller means.
var meaningOf = map[string]string{
	"freezer": "Slurm cannot track processes with proctrack/cgroup",
	"cpuacct": "the CPU time of jobs is not recorded",
	"cpu":     "the CPU throttling of jobs is not recorded",
	"memory":  "the memory of jobs is not recorded",
}

func (d kernelChecks) checkControllers(mount string) {
	const name = "kernel.controllers"
	text, err := d.read(path.Join(mount, "cgroup.controllers"))
	if err != nil {
		d.add(unknown(name, err))
		return
	}
	before := len(d.checks)
	for _, controller := range []string{"cpu", "memory"} {
		if !slices.Contains(strings.Fields(text), controller) {
			d.add(fail(name, "cgroup v2 without the controller "+controller, meaningOf[controller], "remove cgroup_disable="+controller+" from the kernel's command line, and mount no v1 controllers"))
		}
	}
	d.okUnless(before, name, "%s", text)
}

func (d kernelChecks) checkPressure() Check {
	const name = "kernel.psi"
	if _, err := d.read("/proc/pressure/cpu"); err == nil {
		return ok(name, "/proc/pressure is there")
	}
	return warn(name, "the kernel reports no pressure stall information", "the time that jobs wait for CPU, memory and I/O is not recorded", "psi=1 on the kernel's command line")
}

// checkPeak checks for memory.peak: since Linux 5.19, in some kernels of distributions earlier.
func (d kernelChecks) checkPeak(mount string) Check {
	const name = "kernel.memory_peak"
	if found, _ := filepath.Glob(filepath.Join(d.path(mount), "*", "memory.peak")); len(found) > 0 {
		return ok(name, "cgroups have memory.peak")
	}
	v, text, err := d.release()
	switch {
	case err != nil:
		return unknown(name, err)
	case v.before(version{5, 19}):
		return warn(name, "Linux "+text+" has no memory.peak", "the peak of a job's memory is the highest reading; a shorter peak is not seen", "update the kernel to 5.19 or later")
	default:
		return ok(name, "Linux %s has memory.peak", text)
	}
}

// The trackers watch cgroups with inotify: one instance for each tracker, some watches for each job.
const (
	leastInstances = 128
	leastWatches   = 8192
)

func (d kernelChecks) checkInotify() {
	for _, limit := range []struct {
		key   string
		least int
	}{{"max_user_instances", leastInstances}, {"max_user_watches", leastWatches}} {
		name := "kernel.inotify_" + limit.key
		text, err := d.read("/proc/sys/fs/inotify/" + limit.key)
		n, numberErr := strconv.Atoi(text)
		err = errors.Join(err, numberErr)
		switch {
		case err != nil:
			d.add(unknown(name, err))
		case n < limit.least:
			d.add(warn(name, fmt.Sprintf("fs.inotify.%s=%d", limit.key, n), "with many jobs, trackers poll the cgroups instead; this costs more CPU time and may lose the last reading",
				fmt.Sprintf("sysctl -w fs.inotify.%s=%d", limit.key, limit.least)))
		default:
			d.add(ok(name, "fs.inotify.%s=%d", limit.key, n))
		}
	}
}

// checkRAPL checks that the energy counters can be read. Trackers have the capability to read files of root.
func (d kernelChecks) checkRAPL() Check {
	const name = "kernel.rapl"
	if d.Config.Energy.Source == "off" {
		return ok(name, "energy.source is off")
	}
	zones, _ := filepath.Glob(d.path("/sys/class/powercap/intel-rapl:*/energy_uj"))
	if len(zones) == 0 {
		return ok(name, "the kernel has no RAPL counters: no energy of CPUs is recorded")
	}
	text, err := os.ReadFile(zones[0])
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unknown(name, err)
	case err != nil:
		return warn(name, err.Error(), "the energy of the CPUs is not recorded", "modprobe intel_rapl_msr, or energy.source = \"off\" in rt.toml")
	case strings.TrimSpace(string(text)) == "":
		return warn(name, "the RAPL counter is empty", "the energy of the CPUs is not recorded", "energy.source = \"off\" in rt.toml")
	default:
		return ok(name, "%d zones", len(zones))
	}
}

// checkPerf checks the kernel's limits of perf_event_open(2), if the configuration has events.
func (d kernelChecks) checkPerf() Check {
	const name = "kernel.perf"
	if d.Config.Perf == (config.Perf{}) {
		return ok(name, "no events are configured")
	}
	text, err := d.read("/proc/sys/kernel/perf_event_paranoid")
	level, numberErr := strconv.Atoi(text)
	v, release, releaseErr := d.release()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(name, "the kernel has no perf events", "the counters of section [perf] are not recorded", "a kernel with CONFIG_PERF_EVENTS, or no events in [perf] of rt.toml")
	case err != nil || numberErr != nil || releaseErr != nil:
		return unknown(name, errors.Join(err, numberErr, releaseErr))
	case v.before(version{5, 8}) && level > 0:
		return warn(name, fmt.Sprintf("perf_event_paranoid=%d on Linux %s, which has no CAP_PERFMON", level, release), "trackers may not count the events of a cgroup", "sysctl -w kernel.perf_event_paranoid=0")
	default:
		return ok(name, "perf_event_paranoid=%d; trackers have CAP_PERFMON", level)
	}
}
