package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// amd reads the cards of amdgpu below /sys/bus/pci/drivers/amdgpu/<PCI address>/.
type amd struct {
	sys   string
	again time.Time // of the next listing of the cards
	cards []amdCard
	none  error // of listing them
	buf   procfile.Buffer

	details bool
}

// amdCard is one card, its attributes held open.
type amdCard struct {
	id rt.GPUReading // the values that do not change

	busy        attribute // gpu_busy_percent
	vram        attribute // mem_info_vram_used, bytes
	temperature attribute // hwmon temp1_input, thousandths of a degree Celsius; temp2 without an edge sensor
	power       attribute // hwmon power1_average or power1_input, microwatts
	clock       attribute // pp_dpm_sclk, the states of the graphics clock
}

func (a *amd) vendor() string { return "AMD" }

func (a *amd) close() {
	for i := range a.cards {
		for _, f := range a.cards[i].attributes() {
			_ = f.file.Close() // opened for reading: nothing can be lost
		}
	}
	a.cards = nil
}

func (a *amd) read(r *reading) {
	if now := time.Now(); !now.Before(a.again) {
		a.again = now.Add(lookAgain)
		a.close()
		a.none = a.list()
	}
	r.fail(a.none)
	r.missing = r.missing || a.none != nil
	for i := range a.cards {
		a.readCard(&a.cards[i], r)
		if a.details {
			a.readDetails(&a.cards[i], r)
		}
		r.processesShort = true // amdgpu has them in files of each process, which are not read
	}
}

// list finds the cards. The driver's other entries (bind, module) are no PCI addresses.
func (a *amd) list() error {
	driver := filepath.Join(a.sys, "bus/pci/drivers/amdgpu")
	entries, err := os.ReadDir(driver)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the module exists, its driver not yet or no more
	}
	if err != nil {
		return fmt.Errorf("list AMD's GPUs: %w", err)
	}
	for _, e := range entries {
		if strings.Count(e.Name(), ":") == 2 {
			a.cards = append(a.cards, a.open(driver, e.Name()))
		}
	}
	return nil
}

func (a *amd) open(driver, address string) amdCard {
	dir := filepath.Join(driver, address)
	device := procfile.Text(dir, "device")
	c := amdCard{id: rt.GPUReading{
		UUID: address, Name: procfile.Text(dir, "product_name"), Type: "GPU", Host: address,
		Detail: map[string]string{"pci_bus_id": address},
	}}
	if c.id.Name == "" {
		c.id.Name = strings.TrimSpace("AMD GPU " + device)
	}
	if nodes, _ := filepath.Glob(filepath.Join(dir, "drm/card*")); len(nodes) > 0 { // the pattern is valid
		c.id.Host = filepath.Base(nodes[0])
	}
	for key, value := range map[string]string{
		"device_id":      device,
		"driver_version": procfile.Text(a.sys, "module/amdgpu/version"),
		"unique_id":      procfile.Text(dir, "unique_id"),
		"vbios_version":  procfile.Text(dir, "vbios_version"),
	} {
		if value != "" {
			c.id.Detail[key] = value
		}
	}
	if total, ok := procfile.Uint([]byte(procfile.Text(dir, "mem_info_vram_total"))); ok {
		c.id.VRAMTotal.Set(total)
	}
	c.busy = openAttribute(dir, "gpu_busy_percent")
	c.vram = openAttribute(dir, "mem_info_vram_used")
	c.temperature = openAttribute(dir, "hwmon/hwmon*/temp1_input", "hwmon/hwmon*/temp2_input")
	c.power = openAttribute(dir, "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input")
	c.clock = openAttribute(dir, "pp_dpm_sclk")
	return c
}

func (c *amdCard) attributes() [5]*attribute {
	return [...]*attribute{&c.busy, &c.vram, &c.temperature, &c.power, &c.clock}
}

// readCard adds one card to r.
func (a *amd) readCard(c *amdCard, r *reading) {
	now := c.id
	percent, ok := a.number(c, &c.busy, r)
	if ok && percent <= 100 {
		now.Utilization.Set(float64(percent))
	}
	used, ok := a.number(c, &c.vram, r)
	if ok && used <= c.id.VRAMTotal.Or(0) {
		now.VRAMUsed.Set(used)
	}
	if milli, ok := a.number(c, &c.temperature, r); ok {
		now.Temperature.Set(milli / 1000)
	}
	if micro, ok := a.number(c, &c.power, r); ok {
		now.Power.Set(float64(micro) / 1e6)
	}
	if mhz, ok := parseClock(a.bytes(c, &c.clock, r)); ok {
		now.Frequency.Set(mhz)
	}
	r.devices = append(r.devices, now)
}

// number reads an attribute that holds one number.
func (a *amd) number(c *amdCard, f *attribute, r *reading) (uint64, bool) {
	return procfile.Uint(procfile.Trim(a.bytes(c, f, r)))
}

// bytes reads an attribute, until the next call; nil if the card does not have it now.
func (a *amd) bytes(c *amdCard, f *attribute, r *reading) []byte {
	if !f.file.IsOpen() {
		return nil
	}
	b, err := a.buf.Read(&f.file)
	switch {
	case err == nil:
		return b
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODATA), errors.Is(err, unix.EINVAL):
		// this card does not have the value
	case errors.Is(err, unix.ENODEV):
		r.fail(fmt.Errorf("AMD GPU %s was removed: read %s: %w", c.id.UUID, f.name, err))
	default:
		r.fail(fmt.Errorf("AMD GPU %s: read %s: %w", c.id.UUID, f.name, err))
	}
	return nil
}

// attribute is one file of a card, held open if the card has it.
type attribute struct {
	name string
	file procfile.File
}

// openAttribute opens the first file that matches a pattern.
func openAttribute(dir string, patterns ...string) attribute {
	for _, p := range patterns {
		paths, _ := filepath.Glob(filepath.Join(dir, p)) // the patterns are valid
		for _, path := range paths {
			f := attribute{name: filepath.Base(path)}
			if f.file.Open(path) == nil {
				return f
			}
		}
	}
	return attribute{}
}

// readDetails reads the Details of a card.
func (a *amd) readDetails(c *amdCard, r *reading) {
	dir := filepath.Join(a.sys, "bus/pci/drivers/amdgpu", c.id.UUID)
	d := Details{UUID: c.id.UUID, State: procfile.Text(dir, "power_dpm_force_performance_level"), Firmware: c.id.Detail["vbios_version"]}
	read := func(name string) (uint64, bool) {
		paths, _ := filepath.Glob(filepath.Join(dir, name)) // the patterns are valid
		if len(paths) == 0 {
			return 0, false
		}
		return procfile.Uint([]byte(procfile.Text(paths[0])))
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
	memory := []byte(procfile.Text(dir, "pp_dpm_mclk"))
	if mhz, ok := parseClock(memory); ok {
		d.MemClock.Set(mhz)
	}
	if mhz, ok := parseMaxClock(memory); ok {
		d.MaxMemClock.Set(mhz)
	}
	if mhz, ok := parseMaxClock([]byte(procfile.Text(dir, "pp_dpm_sclk"))); ok {
		d.MaxClock.Set(mhz)
	}
	r.details = append(r.details, d)
}

// parseClock finds the clock in MHz of the current state in pp_dpm_sclk: "1: 1700Mhz *".
func parseClock(b []byte) (uint64, bool) {
	for line := range procfile.Lines(b) {
		line = bytes.TrimSpace(line)
		if bytes.HasSuffix(line, []byte{'*'}) && bytes.IndexByte(line, ':') >= 0 {
			return clockOf(line)
		}
	}
	return 0, false
}

// parseMaxClock finds the highest clock of all states.
func parseMaxClock(b []byte) (most uint64, found bool) {
	for line := range bytes.Lines(b) {
		if mhz, ok := clockOf(line); ok {
			most, found = max(most, mhz), true
		}
	}
	return most, found
}

// clockOf is the clock of one state.
func clockOf(line []byte) (uint64, bool) {
	_, state, ok := bytes.Cut(line, []byte{':'})
	if !ok {
		return 0, false
	}
	state = bytes.TrimLeft(state, " ")
	unit := bytes.TrimLeft(state, "0123456789")
	mhz, ok := procfile.Uint(state[:len(state)-len(unit)])
	return mhz, ok && len(unit) >= 3 && bytes.EqualFold(unit[:3], []byte("mhz"))
}
