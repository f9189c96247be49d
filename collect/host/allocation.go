package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// The two values of host_allocation.
const (
	dedicated = "dedicated" // the machine has its hardware to itself
	shared    = "shared"    // a hypervisor may give the same hardware to others
)

// allocation tells whether the machine shares its hardware; empty where nothing
// says so. The specification leaves the heuristic open; this one asks, in order:
//
//  1. The firmware (<sys>/class/dmi/id). Amazon's names the instance type, and
//     those with ".metal" are whole machines. Makers of virtual machines mean shared.
//  2. Steal time in <proc>/stat: only a hypervisor can take time away.
//  3. The flags of <proc>/cpuinfo: on x86 every hypervisor sets the one of that
//     name, so a processor without it is bare metal. Other processors have no such
//     flag, and there a machine that 1 and 2 do not know remains unknown.
func (r Roots) allocation(cpuinfo []byte) string {
	dmi := filepath.Join(r.Sys, "class/dmi/id")
	maker, product := firstLine(filepath.Join(dmi, "sys_vendor")), firstLine(filepath.Join(dmi, "product_name"))
	if maker == "Amazon EC2" && strings.Contains(product, ".metal") {
		return dedicated
	}
	if virtualMaker(maker, product) {
		return shared
	}
	if stat, err := os.ReadFile(filepath.Join(r.Proc, "stat")); err == nil && stolen(stat) {
		return shared
	}
	switch hypervisor, known := parseHypervisor(cpuinfo); {
	case !known:
		return ""
	case hypervisor:
		return shared
	}
	return dedicated
}

// virtualMaker knows the makers of virtual machines that sell no real ones, and the
// product of those that do. Some clouds put theirs on bare metal as well (Google,
// Alibaba): the instance type, which only their metadata service tells, decides then.
func virtualMaker(maker, product string) bool {
	switch maker {
	case "QEMU", "Amazon EC2", "Hetzner", "UpCloud", "Xen", "VMware, Inc.", "innotek GmbH", "DigitalOcean", "Vultr":
		return true
	case "Microsoft Corporation":
		return product == "Virtual Machine"
	}
	return product == "Google Compute Engine" || product == "KVM" || strings.HasPrefix(product, "OpenStack") || strings.HasPrefix(product, "Alibaba Cloud ECS")
}

// stolen reads /proc/stat: the 8th figure of the line "cpu" is the time that a
// hypervisor gave to others, in ticks since boot.
func stolen(stat []byte) bool {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	words := bytes.Fields(line)
	return len(words) > 8 && string(words[0]) == "cpu" && strings.Trim(string(words[8]), "0") != ""
}

// parseHypervisor reads the flags of the first processor of /proc/cpuinfo. known is
// false where there are none, as on everything but x86.
func parseHypervisor(cpuinfo []byte) (hypervisor, known bool) {
	for l := range bytes.Lines(cpuinfo) {
		key, value, ok := bytes.Cut(l, []byte(":"))
		if !ok || string(bytes.TrimSpace(key)) != "flags" {
			continue
		}
		for _, flag := range bytes.Fields(value) {
			if string(flag) == "hypervisor" {
				return true, true
			}
		}
		return false, true
	}
	return false, false
}
