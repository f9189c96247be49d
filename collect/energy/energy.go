// Package energy reads the energy counters and power meters of the node:
//
//   - RAPL, through the powercap framework (Documentation/power/powercap/powercap.rst):
//     packages with their cores, uncore and memory; the platform. AMD's processors have
//     the same names as Intel's.
//   - hwmon: the ACPI power meter, which on servers reads the management controller
//     (DCMI), and AMD's counters if the module amd_energy is loaded.
//   - Cray's pm_counters.
//
// The package does not use the management controller's own device, /dev/ipmi0. A process
// that may read the power there (DCMI) may also switch the node off. An answer can take
// seconds, and each job's tracker would ask. With the modules acpi_power_meter and
// acpi_ipmi the kernel reads it instead.
//
// Only root can read RAPL's counters. They are opened once, with privileges, and then
// read through the descriptors. A domain that vanishes is absent until it appears again;
// its energy is what was counted while it was present, and is not extrapolated.
//
// A package's counter wraps after about 262 kJ, memory's after 65 kJ. Two wraps between two
// readings look like one: at 500 W and 65 kJ that takes 4 minutes. A counter that would
// have wrapped at 10 kW or more was reset, and the energy used meanwhile is unknown.
//
// Some processors show one counter as the domain of each of their dies: it is counted once.
// A counter of the platform or the node can stand still: it is absent then.
package energy

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const (
	// lookAgain is the time between two searches for new domains, and lookSeldom the same
	// on a node without any.
	lookAgain  = time.Minute
	lookSeldom = time.Hour
	// meterPause is the time between two readings of a power meter. It may be connected by
	// a slow bus: one that takes longer than meterTime is read again after meterAgain.
	meterPause = 10 * time.Second
	meterTime  = 50 * time.Millisecond
	meterAgain = 10 * time.Minute
)

// Source reads all domains. It is a collect.Source; one goroutine uses it.
type Source struct {
	sys     string
	domains []domain
	look    int64 // boot time of the next search for domains
	none    error // there is no domain, or none that can be opened
	buf     procfile.Buffer
	now     func() time.Time
}

// unit is the unit of a domain's file.
type unit uint8

const (
	microjoules unit = iota
	joules           // "123 J", and more words
	microwatts
)

// domain is one counter or meter.
type domain struct {
	path    string
	unit    unit
	wraps   uint64 // the value after which the counter restarts at 0; 0 for none
	file    procfile.File
	reading rt.EnergyReading

	counting bool   // last and at are valid
	last     uint64 // microjoules: the counter when it was last read
	at       int64  // boot time of that reading
	total    uint64 // microjoules since the first reading
	next     int64  // boot time of the next reading of a power meter
	check
}

// New returns the source of Snapshot.Energy below sysRoot (/sys). It opens nothing yet.
func New(sysRoot string) *Source { return &Source{sys: sysRoot, now: time.Now} }

// Name is the name of the source in the ledger.
func (s *Source) Name() string { return "energy" }

// Close closes the descriptors.
func (s *Source) Close() error {
	var failed []error
	for i := range s.domains {
		failed = append(failed, s.domains[i].close())
	}
	s.domains, s.look, s.none = nil, 0, nil
	return errors.Join(failed...)
}

func (d *domain) close() error {
	d.counting = false
	if err := d.file.Close(); err != nil {
		return &fs.PathError{Op: "close", Path: d.path, Err: err}
	}
	return nil
}

// Read appends to snap.Energy, in microjoules and watts. A domain that cannot be read has no
// value, and the error has the reason; fs.ErrNotExist means that this node has no domain.
func (s *Source) Read(snap *rt.Snapshot) error {
	if snap.Boot >= s.look {
		s.discover()
		s.look = snap.Boot + int64(lookAgain)
		if len(s.domains) == 0 {
			s.look = snap.Boot + int64(lookSeldom)
		}
	}
	err := s.none
	for i := range s.domains {
		d := &s.domains[i]
		d.reading.Energy.Clear()
		d.reading.Power.Clear()
		if failed := s.measure(d, snap.Boot); failed != nil && err == nil {
			err = failed
		}
	}
	s.findCopies()
	s.findStuck(snap.Boot)
	for i := range s.domains {
		if d := &s.domains[i]; !d.isCopy() {
			snap.Energy = append(snap.Energy, d.reading)
		}
	}
	return err
}

// measure reads one domain.
func (s *Source) measure(d *domain, boot int64) error {
	switch {
	case !d.file.IsOpen():
		return &fs.PathError{Op: "read", Path: d.path, Err: unix.ENODEV}
	case d.unit == microwatts:
		return s.meter(d, boot)
	}
	v, err := s.value(d)
	if err != nil {
		return err
	}
	err = d.count(v, boot)
	d.reading.Energy.Set(d.total)
	return err
}

// meter reads a power meter, if its next reading is due. It is never read for the first
// snapshot, which must not take long.
func (s *Source) meter(d *domain, boot int64) error {
	if d.next == 0 {
		d.next = boot + 1
	}
	if boot < d.next {
		return nil
	}
	began := s.now()
	v, err := s.value(d)
	d.next = boot + int64(meterPause)
	if took := s.now().Sub(began); took > meterTime {
		d.next = boot + int64(meterAgain)
		if err == nil {
			err = fmt.Errorf("%s took %s: it is read every %s from now on", d.path, took.Round(time.Millisecond), meterAgain)
		}
	}
	if err == nil || v > 0 {
		d.reading.Power.Set(float64(v) / 1e6)
	}
	return err
}

// maxPower is more than a processor, its memory or a platform uses, in watts. A counter
// that would have wrapped at a higher power was reset, which root may do.
const maxPower = 10_000

// count adds a counter's new value, in microjoules.
func (d *domain) count(v uint64, boot int64) error {
	before, elapsed := d.last, time.Duration(boot-d.at)
	known := d.counting
	d.last, d.at, d.counting = v, boot, true
	switch {
	case !known:
	case v >= before:
		d.total += v - before
	case d.wraps > 0 && before <= d.wraps:
		used := d.wraps - before + v
		if float64(used) > maxPower*1e6*elapsed.Seconds() {
			return fmt.Errorf("%s fell from %d to %d within %s: it did not wrap but was reset; the energy used meanwhile is unknown", d.path, before, v, elapsed)
		}
		d.total += used
	default:
		return fmt.Errorf("%s fell from %d to %d and has no known range: the energy used meanwhile is unknown", d.path, before, v)
	}
	return nil
}

// value reads a domain's file. The file of a removed domain is closed.
func (s *Source) value(d *domain) (uint64, error) {
	b, err := s.buf.Read(&d.file)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		_ = d.close() // opened for reading: nothing can be lost
	}
	if err != nil {
		return 0, &fs.PathError{Op: "read", Path: d.path, Err: err}
	}
	v, ok := parse(b, d.unit)
	if !ok {
		return 0, fmt.Errorf("%s does not hold one number and its unit: %.40q", d.path, b)
	}
	return v, nil
}

// parse parses "1234\n", and for Cray's counters "1234 J", "1234 J 1400000000 us".
func parse(b []byte, u unit) (uint64, bool) {
	word, rest := procfile.Field(procfile.Trim(b))
	v, ok := procfile.Uint(word)
	if u == joules {
		const million = 1_000_000
		unit, _ := procfile.Field(rest)
		return v * million, ok && v <= math.MaxUint64/million && string(unit) == "J"
	}
	return v, ok && len(rest) == 0
}
