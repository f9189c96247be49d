// Package host collects what section 8.1 of the specification says once of a
// machine, from files alone: nothing is asked over a network.
package host

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// Roots say where the files are. NewRoots gives those of the machine.
type Roots struct {
	Proc string // where procfs is mounted
	Sys  string // where sysfs is mounted
	Etc  string // where machine-id is
}

// NewRoots returns the roots below other mounts of procfs and sysfs.
func NewRoots(procRoot, sysRoot string) Roots {
	return Roots{Proc: procRoot, Sys: sysRoot, Etc: "/etc"}
}

// BootID is the kernel's random id of this boot: <procRoot>/sys/kernel/random/boot_id.
func BootID(procRoot string) (string, error) {
	b, err := os.ReadFile(filepath.Join(procRoot, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read the id of this boot: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", fmt.Errorf("read the id of this boot: %s is empty", filepath.Join(procRoot, "sys/kernel/random/boot_id"))
	}
	return id, nil
}

// Read collects the facts. What cannot be found out is left empty or absent, as
// section 8.1 asks. The GPU's are left to the driver's source.
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

// Name is host_name, as gethostname(3) gives it: <Proc>/sys/kernel/hostname.
func (r Roots) Name() string { return firstLine(filepath.Join(r.Proc, "sys/kernel/hostname")) }

// awsInstance recognises i- and 8 to 17 lower-case hexadecimal digits. A tracker
// compiles no regular expression: its start is in a job's way.
func awsInstance(tag string) bool {
	id, ok := strings.CutPrefix(tag, "i-")
	return ok && len(id) >= 8 && len(id) <= 17 && strings.Trim(id, "0123456789abcdef") == ""
}

// ID is host_id: the instance's name where the cloud puts it into the firmware
// (AWS: <Sys>/class/dmi/id/board_asset_tag), else the machine's own from
// <Etc>/machine-id; empty where neither is there.
func (r Roots) ID() string {
	if tag := firstLine(filepath.Join(r.Sys, "class/dmi/id/board_asset_tag")); awsInstance(tag) {
		return tag
	}
	return firstLine(filepath.Join(r.Etc, "machine-id"))
}

// parseMemTotal reads MemTotal of /proc/meminfo (KiB) as MiB.
func parseMemTotal(b []byte) rt.Opt[uint64] {
	for l := range bytes.Lines(b) {
		words := strings.Fields(string(l))
		if len(words) < 2 || words[0] != "MemTotal:" {
			continue
		}
		if kib, err := strconv.ParseUint(words[1], 10, 64); err == nil {
			return rt.Some(kib / 1024)
		}
	}
	return rt.None[uint64]()
}

// storage is the capacity of the drives in units of 10^9 bytes: of what the kernel
// shows in /sys/block without loop, ram and zram devices, and without those that
// are made of others (dm, md) or are another path to one.
func (r Roots) storage() rt.Opt[float64] {
	dir := filepath.Join(r.Sys, "block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return rt.None[float64]()
	}
	var sectors uint64
	for _, e := range entries {
		if noDrive(e.Name()) || firstLine(filepath.Join(dir, e.Name(), "hidden")) == "1" {
			continue
		}
		if n, err := strconv.ParseUint(firstLine(filepath.Join(dir, e.Name(), "size")), 10, 54); err == nil {
			sectors += n
		}
	}
	return rt.Some(float64(sectors*512) / 1e9)
}

// noDrive recognises what is no drive of its own.
func noDrive(name string) bool {
	for _, kind := range [...]string{"loop", "ram", "zram", "zd", "bcache", "drbd", "md", "sr", "fd"} {
		rest, ok := strings.CutPrefix(name, kind)
		if ok && rest != "" && (rest[0] == '_' || rest[0] >= '0' && rest[0] <= '9') {
			return true
		}
	}
	return strings.HasPrefix(name, "dm-")
}

// firstLine is the first line of a file without blanks at its ends; empty where
// the file cannot be read.
func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // opened for reading: nothing can be lost
	s := bufio.NewScanner(f)
	s.Scan()
	return strings.TrimSpace(strings.ToValidUTF8(s.Text(), ""))
}
