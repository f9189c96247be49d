package host

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Package is a CPU package of the machine.
type Package struct {
	ID    int    // physical_package_id; 0 if the firmware does not report it
	Model string // of the first CPU of the machine
	Cores int    // that have a CPU which is online
	CPUs  []int  // that are online, ascending

	memory []string // directories of its memory nodes
}

// Packages reads the CPUs that are online, by package in ascending order, from <Sys>/devices/system
// (Documentation/ABI/stable/sysfs-devices-system-cpu, Documentation/ABI/stable/sysfs-devices-node).
// A node of memory belongs to the package of its first CPU, and to none if it has no CPU.
func (r Roots) Packages() ([]Package, error) {
	dir := filepath.Join(r.Sys, "devices/system")
	online, ok := procfile.CPUs(procfile.Text(dir, "cpu/online"))
	if !ok || len(online) == 0 {
		return nil, fmt.Errorf("%s/cpu/online has no list of CPUs", dir)
	}
	_, model := parseCPUInfo([]byte(procfile.Text(r.Proc, "cpuinfo")))
	cores := map[[2]int]bool{}
	byID := map[int]*Package{}
	byCPU := map[int]*Package{}
	for _, cpu := range online {
		topology := filepath.Join(dir, fmt.Sprintf("cpu/cpu%d/topology", cpu))
		id, err1 := strconv.Atoi(procfile.Text(topology, "physical_package_id"))
		core, err2 := strconv.Atoi(procfile.Text(topology, "core_id"))
		if err := cmp.Or(err1, err2); err != nil {
			return nil, fmt.Errorf("read the package and core of CPU %d: %w", cpu, err)
		}
		id = max(0, id) // -1 if the firmware does not report it
		p := byID[id]
		if p == nil {
			p = &Package{ID: id, Model: model}
			byID[id] = p
		}
		p.CPUs, byCPU[cpu] = append(p.CPUs, cpu), p
		if at := [2]int{id, core}; !cores[at] {
			cores[at] = true
			p.Cores++
		}
	}
	nodes, err := filepath.Glob(filepath.Join(dir, "node/node[0-9]*"))
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		cpus, _ := procfile.CPUs(procfile.Text(node, "cpulist"))
		isOnline := func(cpu int) bool { return byCPU[cpu] != nil }
		if i := slices.IndexFunc(cpus, isOnline); i >= 0 {
			p := byCPU[cpus[i]]
			p.memory = append(p.memory, node)
		}
	}
	var packages []Package
	for _, p := range byID {
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b Package) int { return a.ID - b.ID })
	return packages, nil
}

// Memory sums the memory nodes of the package, in bytes: meminfo of each, which has lines such as
// "Node 0 MemTotal:  7902512 kB". Reclaimable cache is not used memory.
func (p *Package) Memory() (total, used rt.Opt[uint64]) {
	for _, node := range p.memory {
		kib := map[string]uint64{}
		for line := range procfile.Lines([]byte(procfile.Text(node, "meminfo"))) {
			if key, n, ok, _ := procfile.Pair(procfile.Skip(line, 2)); ok && n < 1<<50 {
				kib[string(key)] = n
			}
		}
		for _, must := range []string{"MemTotal:", "MemFree:", "FilePages:"} {
			if _, ok := kib[must]; !ok {
				return rt.None[uint64](), rt.None[uint64]()
			}
		}
		all := kib["MemTotal:"]
		free := min(all, kib["MemFree:"]+kib["FilePages:"]+kib["SReclaimable:"])
		total.Set(total.Or(0) + all<<10)
		used.Set(used.Or(0) + (all-free)<<10)
	}
	return total, used
}
