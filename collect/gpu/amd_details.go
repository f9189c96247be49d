package gpu

import (
	"path/filepath"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

func (a *amd) enableDetails() { a.details = true }

// readDetails reads the Details of a card.
func (a *amd) readDetails(c *amdCard, r *reading) {
	dir := filepath.Join(a.sys, "bus/pci/drivers/amdgpu", c.id.UUID)
	d := Details{UUID: c.id.UUID, State: text(dir, "power_dpm_force_performance_level"), Firmware: c.id.Detail["vbios_version"]}
	read := func(name string) (uint64, bool) {
		paths, _ := filepath.Glob(filepath.Join(dir, name)) // the patterns are valid
		if len(paths) == 0 {
			return 0, false
		}
		return procfile.Uint([]byte(text(paths[0], "")))
	}
	speed, ok1 := read("hwmon/hwmon*/fan1_input")
	if most, ok2 := read("hwmon/hwmon*/fan1_max"); ok1 && ok2 && most > 0 {
		d.Fan.Set(uint64(float64(speed) / float64(most) * 100))
	}
	if percent, ok := read("mem_busy_percent"); ok && percent <= 100 {
		d.MemUtilization.Set(percent)
	}
	for name, to := range map[string]*rt.Opt[float64]{"power1_cap": &d.PowerLimit, "power1_cap_min": &d.MinPowerLimit, "power1_cap_max": &d.MaxPowerLimit} {
		if microwatts, ok := read("hwmon/hwmon*/" + name); ok {
			to.Set(float64(microwatts) / 1e6)
		}
	}
	memory := []byte(text(dir, "pp_dpm_mclk"))
	if mhz, ok := parseClock(memory); ok {
		d.MemClock.Set(mhz)
	}
	if mhz, ok := parseMaxClock(memory); ok {
		d.MaxMemClock.Set(mhz)
	}
	if mhz, ok := parseMaxClock([]byte(text(dir, "pp_dpm_sclk"))); ok {
		d.MaxClock.Set(mhz)
	}
	r.details = append(r.details, d)
}
