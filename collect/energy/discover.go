package energy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// discover opens the domains that are not open yet.
func (s *Source) discover() {
	s.none = nil
	var denied error
	for _, found := range [...][]domain{s.powercap(), s.hwmon(), s.cray()} {
		for _, d := range found {
			denied = errors.Join(denied, s.add(d))
		}
	}
	switch {
	case denied != nil:
		s.none = denied
	case len(s.domains) == 0:
		s.none = &fs.PathError{Op: "find energy counters", Path: s.sys, Err: fs.ErrNotExist}
	}
}

// add opens a domain, unless it is open.
func (s *Source) add(d domain) error {
	i := slices.IndexFunc(s.domains, func(known domain) bool {
		a, b := &known.reading, &d.reading
		return a.Source == b.Source && a.Domain == b.Domain && a.Kind == b.Kind
	})
	if i >= 0 && s.domains[i].file.IsOpen() {
		return nil
	}
	err := d.file.Open(d.path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return nil // it was just removed
	case i >= 0:
		known := &s.domains[i]
		known.path, known.wraps, known.file = d.path, d.wraps, d.file
		return nil
	}
	s.domains = append(s.domains, d)
	return nil
}

// powercap lists RAPL's domains, /sys/class/powercap/intel-rapl:<n>[:<m>]. The domains of
// intel-rapl-mmio are the same ones, accessed through memory.
func (s *Source) powercap() []domain {
	dir := filepath.Join(s.sys, "class/powercap")
	var out []domain
	for _, control := range [...]string{"intel-rapl:", "intel-rapl-mmio:"} {
		for _, name := range list(dir, control) {
			d, ok := s.rapl(dir, control, name)
			if ok && !slices.ContainsFunc(out, func(o domain) bool { return o.reading.Domain == d.reading.Domain }) {
				out = append(out, d)
			}
		}
	}
	return out
}

func (s *Source) rapl(dir, control, name string) (domain, bool) {
	zone := filepath.Join(dir, name)
	label := procfile.Text(zone, "name")
	parent, _, sub := strings.Cut(strings.TrimPrefix(name, control), ":")
	of := label
	if sub {
		of = procfile.Text(dir, control+parent, "name")
		label = of + "/" + label
	}
	d := domain{path: filepath.Join(zone, "energy_uj")}
	d.reading = rt.EnergyReading{Source: "powercap", Domain: label, Kind: kindOf(label), Socket: socketOf(of)}
	d.wraps, _ = strconv.ParseUint(procfile.Text(zone, "max_energy_range_uj"), 10, 64) // 0 if there is no file
	return d, of != "" && d.reading.Kind != ""
}

// kindOf returns a zone's kind by its name: "package-0", "package-1-die-0", "psys",
// "package-0/core", "package-0/uncore" or "package-0/dram".
func kindOf(label string) rt.EnergyKind {
	_, part, sub := strings.Cut(label, "/")
	switch {
	case !sub && strings.HasPrefix(label, "package-"):
		return rt.EnergyPackage
	case label == "psys":
		return rt.EnergyPlatform
	case part == "core":
		return rt.EnergyCore
	case part == "uncore":
		return rt.EnergyUncore
	case part == "dram":
		return rt.EnergyDRAM
	}
	return ""
}

// socketOf parses the number in "package-1" and "package-1-die-0".
func socketOf(label string) rt.Opt[uint64] {
	number, ok := strings.CutPrefix(label, "package-")
	number, _, _ = strings.Cut(number, "-")
	if n, err := strconv.ParseUint(number, 10, 32); ok && err == nil {
		return rt.Some(n)
	}
	return rt.None[uint64]()
}

// hwmon lists the power meters of the node (Documentation/hwmon/acpi_power_meter.rst) and
// the counters of sockets of amd_energy (amd_energy.rst of Linux 5.8 to 5.12).
func (s *Source) hwmon() []domain {
	dir := filepath.Join(s.sys, "class/hwmon")
	var out []domain
	for _, name := range list(dir, "hwmon") {
		chip := filepath.Join(dir, name)
		switch procfile.Text(chip, "name") {
		case "power_meter":
			label := strings.TrimSpace("power_meter " + procfile.Text(chip, "power1_oem_info"))
			if len(out) > 0 {
				label = name + " " + label
			}
			out = append(out, domain{path: filepath.Join(chip, "power1_average"), unit: microwatts,
				reading: rt.EnergyReading{Source: "hwmon", Domain: label, Kind: rt.EnergyNode}})
		case "amd_energy":
			out = append(out, amdSockets(chip)...)
		}
	}
	return out
}

func amdSockets(chip string) []domain {
	var out []domain
	for _, label := range list(chip, "energy") {
		number, ok := strings.CutSuffix(label, "_label")
		socket, isSocket := strings.CutPrefix(procfile.Text(chip, label), "Esocket")
		n, err := strconv.ParseUint(socket, 10, 32)
		if !ok || !isSocket || err != nil {
			continue
		}
		out = append(out, domain{path: filepath.Join(chip, number+"_input"),
			reading: rt.EnergyReading{Source: "hwmon", Domain: "package-" + socket, Kind: rt.EnergyPackage, Socket: rt.Some(n)}})
	}
	return out
}

// cray lists /sys/cray/pm_counters: the node, and parts of it.
func (s *Source) cray() []domain {
	dir := filepath.Join(s.sys, "cray/pm_counters")
	var out []domain
	for _, name := range list(dir, "") {
		part, ok := strings.CutSuffix(name, "energy")
		part = strings.TrimSuffix(part, "_")
		var kind rt.EnergyKind
		switch {
		case !ok:
			continue
		case part == "":
			part, kind = "node", rt.EnergyNode
		case strings.HasPrefix(part, "cpu"):
			kind = rt.EnergyPackage
		case part == "memory":
			kind = rt.EnergyDRAM
		case strings.HasPrefix(part, "accel"):
			kind = rt.EnergyGPU
		default:
			continue
		}
		out = append(out, domain{path: filepath.Join(dir, name), unit: joules,
			reading: rt.EnergyReading{Source: "pm_counters", Domain: part, Kind: kind}})
	}
	return out
}

// list returns the entries of a directory that begin with prefix, in natural order.
func list(dir, prefix string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			out = append(out, e.Name())
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(a) - len(b) })
	return out
}
