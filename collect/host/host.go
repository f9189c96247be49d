// Package host reads the facts of a machine that section 8.1 of the specification lists. It reads files alone and uses
// no network. Callers query drivers and a cloud, and the package joins their facts with its own. It leaves out the
// fields that a user suppresses, and keeps the facts in a cache.
package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Roots are the directories of the files.
type Roots struct {
	Proc string // where procfs is mounted
	Sys  string // where sysfs is mounted
	Etc  string // directory of machine-id
}

// NewRoots returns the roots with procfs and sysfs mounted there, and /etc.
func NewRoots(procRoot, sysRoot string) Roots {
	return Roots{Proc: procRoot, Sys: sysRoot, Etc: "/etc"}
}

// BootID returns the kernel's random id of this boot: <procRoot>/sys/kernel/random/boot_id.
func BootID(procRoot string) (string, error) {
	path := filepath.Join(procRoot, "sys/kernel/random/boot_id")
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the id of this boot: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", fmt.Errorf("read the id of this boot: %s is empty", path)
	}
	return id, nil
}

// BootTime returns the time of this boot in seconds since the epoch: btime of <procRoot>/stat.
func BootTime(procRoot string) (uint64, error) {
	_, after, _ := strings.Cut(procfile.Text(procRoot, "stat"), "\nbtime ")
	line, _, _ := strings.Cut(after, "\n")
	boot, err := strconv.ParseUint(line, 10, 52)
	if err != nil {
		return 0, fmt.Errorf("read btime in %s/stat: %w", procRoot, err)
	}
	return boot, nil
}

// Read reads the facts. A fact that cannot be read is empty or absent, as section 8.1
// requires. The facts of GPUs come from the source of the driver.
func Read(r Roots) rt.Host {
	h := rt.Host{
		HostID:    r.ID(),
		HostName:  r.Name(),
		HostIP:    r.IP(),
		StorageGB: r.storage(),
	}
	if b, err := os.ReadFile(filepath.Join(r.Proc, "cpuinfo")); err == nil {
		h.VCPUs, h.CPUModel = parseCPUInfo(b)
		h.HostAllocation = r.allocation(b)
	}
	if b, err := os.ReadFile(filepath.Join(r.Proc, "meminfo")); err == nil {
		h.MemoryMiB = parseMemTotal(b)
	}
	return h
}

// Name returns host_name, the result of gethostname(3): <Proc>/sys/kernel/hostname.
func (r Roots) Name() string { return firstLine(r.Proc, "sys/kernel/hostname") }

// isAWSInstance recognises i- and 8 to 17 lower-case hexadecimal digits. It uses no
// regular expression, because compiling one delays the start of a job.
func isAWSInstance(tag string) bool {
	id, ok := strings.CutPrefix(tag, "i-")
	return ok && len(id) >= 8 && len(id) <= 17 && strings.Trim(id, "0123456789abcdef") == ""
}

// ID returns host_id: the name of the instance if the firmware has it (AWS:
// <Sys>/class/dmi/id/board_asset_tag), else <Etc>/machine-id; empty without both.
func (r Roots) ID() string {
	if tag := firstLine(r.Sys, "class/dmi/id/board_asset_tag"); isAWSInstance(tag) {
		return tag
	}
	return firstLine(r.Etc, "machine-id")
}

// firstLine returns the first line of the text of a file: a name or a number that an administrator
// or the firmware has set. With a second line, the cache of the facts would be refused.
func firstLine(path ...string) string {
	line, _, _ := strings.Cut(procfile.Text(path...), "\n")
	return strings.TrimSpace(line)
}

// parseMemTotal parses MemTotal of /proc/meminfo (KiB), in MiB.
func parseMemTotal(b []byte) rt.Opt[uint64] {
	for len(b) > 0 {
		key, kib, ok, rest := procfile.Pair(b)
		if ok && string(key) == "MemTotal:" {
			return rt.Some(kib / 1024)
		}
		b = rest
	}
	return rt.None[uint64]()
}

// storage is the capacity of the drives in /sys/block in units of 10^9 bytes. It leaves out
// loop, ram and zram devices. It also leaves out devices that consist of others (dm, md) or
// are another path to one.
func (r Roots) storage() rt.Opt[float64] {
	dir := filepath.Join(r.Sys, "block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return rt.None[float64]()
	}
	var sectors uint64
	for _, e := range entries {
		if isNoDrive(e.Name()) || procfile.Text(dir, e.Name(), "hidden") == "1" {
			continue
		}
		if n, err := strconv.ParseUint(procfile.Text(dir, e.Name(), "size"), 10, 54); err == nil {
			sectors += n
		}
	}
	return rt.Some(float64(sectors*512) / 1e9)
}

// isNoDrive recognises devices that are no drives.
func isNoDrive(name string) bool {
	for _, kind := range [...]string{"loop", "ram", "zram", "zd", "bcache", "drbd", "md", "sr", "fd"} {
		rest, ok := strings.CutPrefix(name, kind)
		if ok && rest != "" && strings.Contains("_0123456789", rest[:1]) {
			return true
		}
	}
	return strings.HasPrefix(name, "dm-")
}

// parseCPUInfo parses /proc/cpuinfo: the number of processors and the name of the first.
// The key is "model name" on x86, "cpu" on POWER, "uarch" on RISC-V. arm64 has only
// numbers, which armName translates.
func parseCPUInfo(b []byte) (vcpus rt.Opt[uint64], model string) {
	var n uint64
	first := map[string]string{}
	for l := range bytes.Lines(b) {
		key, value, ok := strings.Cut(string(l), ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "processor" {
			n++
		}
		if _, seen := first[key]; !seen {
			first[key] = value
		}
	}
	if n > 0 {
		vcpus.Set(n)
	}
	for _, key := range [...]string{"model name", "cpu", "uarch"} {
		if first[key] != "" {
			return vcpus, first[key]
		}
	}
	return vcpus, armName(first["CPU implementer"], first["CPU part"])
}

// armName returns the name of an arm64 core by its MIDR_EL1 implementer and part number,
// see the kernel's arch/arm64/include/asm/cputype.h. It returns the numbers for a core that
// is not used in servers.
func armName(implementer, part string) string {
	if implementer == "" {
		return ""
	}
	if name, ok := armCores[implementer+" "+part]; ok {
		return name
	}
	return strings.TrimSpace(fmt.Sprintf("ARM implementer %s part %s", implementer, part))
}

var armCores = map[string]string{
	"0x41 0xd03": "ARM Cortex-A53",
	"0x41 0xd07": "ARM Cortex-A57",
	"0x41 0xd08": "ARM Cortex-A72",
	"0x41 0xd0b": "ARM Cortex-A76",
	"0x41 0xd0c": "ARM Neoverse-N1",
	"0x41 0xd40": "ARM Neoverse-V1",
	"0x41 0xd49": "ARM Neoverse-N2",
	"0x41 0xd4f": "ARM Neoverse-V2",
	"0x41 0xd84": "ARM Neoverse-V3",
	"0x41 0xd8e": "ARM Neoverse-N3",
	"0x43 0x0af": "Marvell ThunderX2",
	"0x46 0x001": "Fujitsu A64FX",
	"0x48 0xd01": "HiSilicon TSV110",
	"0xc0 0xac3": "Ampere-1",
	"0xc0 0xac4": "Ampere-1A",
}
