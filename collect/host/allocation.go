package host

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The two values of host_allocation.
const (
	dedicated = "dedicated" // no other machine uses the hardware
	shared    = "shared"    // a hypervisor may give the same hardware to other machines
)

// allocation returns whether the machine shares its hardware; empty if that is unknown.
// The specification leaves the heuristic open; this one uses, in order:
//
//  1. The firmware (<sys>/class/dmi/id). Amazon's has the instance type, and types with
//     ".metal" are whole machines. Vendors of virtual machines mean shared.
//  2. Steal time in <proc>/stat: only a hypervisor can take time away.
//  3. The flag "hypervisor" of <proc>/cpuinfo: on x86 every hypervisor sets it, so a
//     processor without it is bare metal. Other processors have no such flag: a machine
//     that 1 and 2 do not recognise is unknown.
func (r Roots) allocation(cpuinfo []byte) string {
	dmi := filepath.Join(r.Sys, "class/dmi/id")
	maker, product := firstLine(dmi, "sys_vendor"), firstLine(dmi, "product_name")
	if maker == "Amazon EC2" && strings.Contains(product, ".metal") {
		return dedicated
	}
	if isVirtual(maker, product) {
		return shared
	}
	if stat, err := os.ReadFile(filepath.Join(r.Proc, "stat")); err == nil && hasSteal(stat) {
		return shared
	}
	hypervisor, known := parseHypervisor(cpuinfo)
	switch {
	case !known:
		return ""
	case hypervisor:
		return shared
	}
	return dedicated
}

// isVirtual recognises vendors that only have virtual machines, and the virtual products of
// the others. Some clouds use the same product name for bare metal (Google, Alibaba): there
// only the instance type decides, which only their metadata service has.
func isVirtual(maker, product string) bool {
	switch maker {
	case "QEMU", "Amazon EC2", "Hetzner", "UpCloud", "Xen", "VMware, Inc.", "innotek GmbH", "DigitalOcean", "Vultr":
		return true
	case "Microsoft Corporation":
		return product == "Virtual Machine"
	}
	return product == "Google Compute Engine" || product == "KVM" || strings.HasPrefix(product, "OpenStack") || strings.HasPrefix(product, "Alibaba Cloud ECS")
}

// hasSteal parses /proc/stat: the 8th figure of the line "cpu" is the time that a
// hypervisor gave to other machines, in ticks since boot.
func hasSteal(stat []byte) bool {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	words := bytes.Fields(line)
	return len(words) > 8 && string(words[0]) == "cpu" && strings.Trim(string(words[8]), "0") != ""
}

// parseHypervisor parses the flags of the first processor of /proc/cpuinfo. known is false
// without flags, as on all architectures except x86.
func parseHypervisor(cpuinfo []byte) (hypervisor, known bool) {
	for l := range bytes.Lines(cpuinfo) {
		key, value, ok := strings.Cut(string(l), ":")
		if ok && strings.TrimSpace(key) == "flags" {
			return slices.Contains(strings.Fields(value), "hypervisor"), true
		}
	}
	return false, false
}
