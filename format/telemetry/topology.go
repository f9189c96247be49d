package telemetry

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

// machine is the topology of the node's CPUs, read once. A later CPU belongs to no socket.
type machine struct {
	logical  int          // CPUs that are online
	physical int          // cores of these
	sockets  []cpuPackage // ascending
	socketOf map[int]int  // CPU -> index in sockets
}

// cpuPackage is a CPU package.
type cpuPackage struct {
	gempba.Socket
	numa []string // directories of its memory nodes
}

// readMachine reads /sys/devices/system (Documentation/ABI/stable/sysfs-devices-system-cpu,
// Documentation/ABI/stable/sysfs-devices-node): the CPUs that are online, their
// packages and cores, and the memory nodes. A node of memory belongs to the package
// of its first CPU, and to none if it has no CPU.
func readMachine(procfs, sysfs string) (*machine, error) {
	dir := filepath.Join(sysfs, "devices/system")
	online, err := readList(filepath.Join(dir, "cpu/online"))
	if err != nil {
		return nil, fmt.Errorf("read the CPUs that are online: %w", err)
	}
	m := &machine{logical: len(online), socketOf: map[int]int{}}
	cores := map[[2]int]bool{}
	byID := map[int]*cpuPackage{}
	name := modelName(procfs)
	for _, cpu := range online {
		of := filepath.Join(dir, fmt.Sprintf("cpu/cpu%d/topology", cpu))
		socket, err1 := readNumber(filepath.Join(of, "physical_package_id"))
		core, err2 := readNumber(filepath.Join(of, "core_id"))
		if err := cmp.Or(err1, err2); err != nil {
			return nil, fmt.Errorf("read the socket and core of CPU %d: %w", cpu, err)
		}
		p := byID[max(0, socket)] // -1 if the firmware does not report it
		if p == nil {
			p = &cpuPackage{Socket: gempba.Socket{SocketID: uint32(max(0, socket)), Name: name}}
			p.PhysicalCores.Set(0)
			byID[max(0, socket)] = p
		}
		p.CPUIDs = append(p.CPUIDs, uint32(cpu))
		p.LogicalCores.Set(uint64(len(p.CPUIDs)))
		if at := [2]int{socket, core}; !cores[at] {
			cores[at] = true
			p.PhysicalCores.Set(p.PhysicalCores.Or(0) + 1)
		}
	}
	m.physical = len(cores)
	for _, p := range byID {
		m.sockets = append(m.sockets, *p)
	}
	slices.SortFunc(m.sockets, func(a, b cpuPackage) int { return int(a.SocketID) - int(b.SocketID) })
	for i := range m.sockets {
		for _, cpu := range m.sockets[i].CPUIDs {
			m.socketOf[int(cpu)] = i
		}
	}
	return m, m.readNUMA(dir)
}

func (m *machine) readNUMA(dir string) error {
	nodes, err := filepath.Glob(filepath.Join(dir, "node/node[0-9]*"))
	if err != nil {
		return err
	}
	for _, node := range nodes {
		cpus, err := readList(filepath.Join(node, "cpulist"))
		if err != nil {
			return fmt.Errorf("read the CPUs of a memory node: %w", err)
		}
		isKnown := func(cpu int) bool { _, ok := m.socketOf[cpu]; return ok }
		if i := slices.IndexFunc(cpus, isKnown); i >= 0 {
			p := &m.sockets[m.socketOf[cpus[i]]]
			p.numa = append(p.numa, node)
		}
	}
	return nil
}

// primary returns the socket that has most of the CPUs.
func (m *machine) primary(cpus []uint32) rt.Opt[int64] {
	count := make([]int, len(m.sockets))
	for _, cpu := range cpus {
		if at, ok := m.socketOf[int(cpu)]; ok {
			count[at]++
		}
	}
	if len(count) == 0 || slices.Max(count) == 0 {
		return rt.None[int64]()
	}
	return rt.Some(int64(m.sockets[slices.Index(count, slices.Max(count))].SocketID))
}

// memory sums the memory nodes of the package, in bytes. Reclaimable cache is not used memory.
func (p *cpuPackage) memory() (total, used rt.Opt[uint64]) {
	if len(p.numa) == 0 {
		return total, used
	}
	var sumTotal, sumUsed uint64
	for _, node := range p.numa {
		kib, err := readNodeMeminfo(filepath.Join(node, "meminfo"))
		if err != nil {
			return rt.None[uint64](), rt.None[uint64]()
		}
		free := kib["MemFree"] + kib["FilePages"] + kib["SReclaimable"]
		sumTotal += kib["MemTotal"] << 10
		sumUsed += (kib["MemTotal"] - min(free, kib["MemTotal"])) << 10
	}
	return rt.Some(sumTotal), rt.Some(sumUsed)
}

// readNodeMeminfo parses lines such as "Node 0 MemTotal:  7902512 kB".
func readNodeMeminfo(name string) (map[string]uint64, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	kib := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "Node" {
			continue
		}
		if n, err := strconv.ParseUint(fields[3], 10, 54); err == nil {
			kib[strings.TrimSuffix(fields[2], ":")] = n
		}
	}
	for _, must := range []string{"MemTotal", "MemFree", "FilePages"} {
		if _, ok := kib[must]; !ok {
			return nil, fmt.Errorf("%s: it has no line %s", name, must)
		}
	}
	return kib, nil
}

// modelName returns the model of the first CPU in /proc/cpuinfo, empty if there is none.
func modelName(procfs string) string {
	text, _ := os.ReadFile(filepath.Join(procfs, "cpuinfo")) // without it there is no name
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// affinity returns the CPUs that a process may run on, ascending; nil if that is unknown.
func affinity(pid int) []uint32 {
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) != nil {
		return nil
	}
	cpus := []uint32{}
	for cpu := range uint32(len(set) * 64) {
		if set.IsSet(int(cpu)) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func readNumber(name string) (int, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", name, err)
	}
	return n, nil
}

func readList(name string) ([]int, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseList(string(text))
}

// parseList parses the kernel's lists of CPUs, "0-3,8".
func parseList(text string) ([]int, error) {
	var out []int
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if err == nil && span {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || first > last || last >= gempba.MaxCPUs {
			return nil, fmt.Errorf("%.40q is no list of CPUs such as \"0-3,8\"", text)
		}
		for cpu := first; cpu <= last; cpu++ {
			out = append(out, int(cpu))
		}
	}
	return out, nil
}
