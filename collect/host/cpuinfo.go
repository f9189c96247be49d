package host

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

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
// see the kernel's arch/arm64/include/asm/cputype.h; the numbers for a core that is not
// used in servers.
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
