// Package gpu reads the GPUs of the node. It reads NVIDIA's through NVML, a library of the
// driver that is loaded at run time. It reads AMD's from the files of the module amdgpu
// below /sys. A node without these drivers has no device, no sums, no error, and loads no
// library.
//
// A value that a device does not have is absent. With MIG enabled, the list has an NVIDIA
// GPU with its temperature, power and clock. Each of its MIG instances follows as a device
// with its memory. The GPU's own memory is then absent, so that no sum over the list counts
// a byte twice. Utilization is absent too, because NVML reports it for neither: so are the
// sums of utilization over such a GPU and others.
//
// A program that has NVML open is a client of the driver. Until Close the GPU keeps its
// state between jobs' processes, and nvidia-smi cannot reset it or change its MIG mode.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	// maxWait is the time that a reading waits for all drivers together. It waits longer, up to
	// maxSlowWait, for a driver whose latest answer took longer: eight GPUs take several 100 ms.
	maxWait     = 100 * time.Millisecond
	maxSlowWait = time.Second
	// lookAgain is the time between two searches for drivers, GPUs and MIG instances.
	lookAgain = time.Minute

	readyTimeout = 10 * time.Second // NVIDIA's driver takes seconds to start if nothing keeps it loaded
	readyPause   = 250 * time.Millisecond
)

// Source reads the GPUs of the node and the sums over them. It is a collect.Source; one
// goroutine at a time uses it.
type Source struct {
	dev, sys    string
	maxWait     time.Duration
	processes   bool     // drivers list the processes
	details     bool     // drivers read Details
	tracked     *tracker // nil without WithTracked
	nvidia, amd bool     // drivers has them
	drivers     []*worker
	look        time.Time // of the next search for drivers
	wait        waiting
	now         reading // of the newest Read; its devices are the snapshot's
}

// Option changes what a Source reads.
type Option func(*Source)

// WithProcesses makes each reading include all processes on the GPUs, see Processes.
func WithProcesses() Option { return func(s *Source) { s.processes = true } }

// WithDetails makes each reading include Details, see Source.Details.
func WithDetails() Option { return func(s *Source) { s.details = true } }

// New returns the source for the devices below devRoot (/dev) and sysRoot (/sys).
// It searches and loads nothing before the first reading.
func New(devRoot, sysRoot string, options ...Option) *Source {
	s := &Source{dev: devRoot, sys: sysRoot, maxWait: maxWait}
	for _, o := range options {
		o(s)
	}
	return s
}

// Name is the name of the source in the ledger.
func (s *Source) Name() string { return "gpu" }

// Close closes the drivers. It does not wait for one that hangs.
func (s *Source) Close() error {
	for _, w := range s.drivers {
		w.stop()
	}
	s.wait.start(s.maxWait)
	for _, w := range s.drivers {
		s.wait.waitFor(w.gone)
	}
	s.drivers, s.nvidia, s.amd, s.look = nil, false, false, time.Time{}
	return nil
}

// Present reports whether the node has a driver for GPUs. It loads nothing.
func Present(devRoot, sysRoot string) bool { return hasNVIDIA(devRoot) || hasAMD(sysRoot) }

func hasNVIDIA(dev string) bool { return exists(filepath.Join(dev, "nvidiactl")) }

func hasAMD(sys string) bool { return exists(filepath.Join(sys, "module/amdgpu")) }

// Read fills the devices and their sums, section 6.1.5. It waits at most 100 ms, or 1 s for
// a driver that is known to be slow. It does not wait for a driver that did not answer the
// previous reading. If a driver does not answer or a device fails, only its values are
// absent, and the error has the device and the reason. In the first 10 s a missing answer
// is not an error, because the driver may initialize unused GPUs.
func (s *Source) Read(snap *rt.Snapshot) error {
	if now := time.Now(); !now.Before(s.look) {
		s.find()
		s.look = now.Add(lookAgain)
	}
	wait := s.maxWait
	for _, w := range s.drivers {
		w.begin()
		wait = max(wait, w.needs())
	}
	s.wait.start(wait)
	s.now.reset()
	s.now.devices = snap.GPUs[:0]
	for _, w := range s.drivers {
		w.finish(&s.wait, &s.now)
	}
	snap.GPUs = s.now.devices
	snap.Energy = append(snap.Energy, s.now.energy...)
	snap.Node.GPUs = s.now.count()
	var all rt.GPUUse
	if !s.now.missing {
		all = s.now.sumDevices(func(*rt.GPUReading) bool { return true })
	}
	snap.Node.GPUUsage, snap.Node.GPUVRAMUsed, snap.Node.GPUUtilized = all.Usage, all.VRAMUsed, all.Utilized
	if s.tracked != nil {
		s.tracked.attribute(&s.now, snap)
	}
	return s.now.err
}

// Late reports whether a driver has not answered the newest Read in time. That is no error
// in the first 10 s.
func (s *Source) Late() bool { return s.now.late }

// Processes returns all processes that the newest Read found on the GPUs, until the next one. There
// are none without WithProcesses or WithTracked, and for AMD's GPUs.
func (s *Source) Processes() []rt.GPUProcessReading { return s.now.processes }

// Details returns the details that the newest Read found, until the next one. There are none without
// WithDetails.
func (s *Source) Details() []Details { return s.now.details }

// find starts to use the drivers that the node has by now: NVIDIA's creates
// /dev/nvidiactl, AMD's is the module amdgpu. NVML is not loaded to find out, because that
// would load the kernel module if it is installed.
func (s *Source) find() {
	if !s.nvidia && hasNVIDIA(s.dev) {
		s.nvidia = true
		s.drivers = append(s.drivers, newWorker(newNVIDIA(s.processes, s.details)))
	}
	if !s.amd && hasAMD(s.sys) {
		s.amd = true
		s.drivers = append(s.drivers, newWorker(&amd{sys: s.sys, details: s.details}))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Reader is the part of a Source that ReadOnce uses.
type Reader interface {
	Read(*rt.Snapshot) error
	Late() bool
	Close() error
}

// ReadOnce reads the GPUs when their drivers answer, and closes the source. After 10 s it
// returns os.ErrDeadlineExceeded and the GPUs of the drivers that have answered.
func ReadOnce(ctx context.Context, source Reader) ([]rt.GPUReading, error) {
	defer source.Close() // nothing was written
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		var s rt.Snapshot
		err := source.Read(&s)
		if !source.Late() {
			return s.GPUs, err
		}
		select {
		case <-ctx.Done():
			return s.GPUs, fmt.Errorf("read the GPUs: a driver has not answered: %w", os.ErrDeadlineExceeded)
		case <-time.After(readyPause):
		}
	}
}

// Details are the properties of one GPU that its reading does not have. They are for a
// single report, not for a record. A property that the driver does not have is absent or
// empty.
type Details struct {
	UUID string // as in rt.GPUReading; MIG instances have no Details

	Fan            rt.Opt[uint64] // percent of the highest speed
	ComputeMode    string         // "Exclusive_Process", "Prohibited"; also empty for the default mode
	State          string         // "P0" to "P15" for NVIDIA's; "auto", "low", "high", ... for AMD's
	MemUtilization rt.Opt[uint64] // percent of the time in which its memory was read or written
	MemClock       rt.Opt[uint64] // MHz

	PowerLimit, MinPowerLimit, MaxPowerLimit rt.Opt[float64] // watts: the current limit and its bounds
	MaxClock, MaxMemClock                    rt.Opt[uint64]  // MHz

	Architecture string // "Hopper"
	Firmware     string // version of its VBIOS
}

// reading has the values of the devices of one driver, or of all.
type reading struct {
	devices   []rt.GPUReading
	energy    []rt.EnergyReading
	processes []rt.GPUProcessReading // on NVIDIA's GPUs, with pids of the node's namespace
	ended     []rt.GPUProcessReading // were in the previous reading; only where the driver accounts for processes
	details   []Details

	missing        bool  // a device is not in devices
	processesShort bool  // a device did not list its processes
	late           bool  // a driver did not answer in time
	err            error // the errors of all devices
}

func (r *reading) reset() {
	*r = reading{devices: r.devices[:0], energy: r.energy[:0], processes: r.processes[:0], ended: r.ended[:0], details: r.details[:0]}
}

// fail adds an error.
func (r *reading) fail(err error) {
	if err != nil {
		r.err = errors.Join(r.err, err)
	}
}

// count is the number of GPUs, without MIG instances.
func (r *reading) count() (n rt.Opt[uint64]) {
	if r.missing {
		return n
	}
	n.Set(0)
	for i := range r.devices {
		if r.devices[i].Detail["parent_uuid"] == "" {
			n.Set(n.Or(0) + 1)
		}
	}
	return n
}

// sumDevices adds up the values of the chosen devices. A sum is absent if one of them does not have
// its value, for whatever reason, and if there is none. The memory of a GPU with MIG on is in its
// instances.
func (r *reading) sumDevices(chosen func(g *rt.GPUReading) bool) (sum rt.GPUUse) {
	var percent float64
	var utilized, vram uint64
	used, filled := 0, 0
	isUsageRead, isVRAMRead := true, true
	for i := range r.devices {
		g := &r.devices[i]
		if !chosen(g) {
			continue
		}
		used++
		busy, ok := g.Utilization.Get()
		isUsageRead = isUsageRead && ok
		percent += busy
		if busy > 0 {
			utilized++
		}
		if g.Detail["mig_mode"] == "enabled" {
			continue
		}
		filled++
		bytes, ok := g.VRAMUsed.Get()
		isVRAMRead = isVRAMRead && ok
		vram += bytes
	}
	if used > 0 && isUsageRead {
		sum.Usage.Set(percent / 100)
		sum.Utilized.Set(utilized)
	}
	if filled > 0 && isVRAMRead {
		sum.VRAMUsed.Set(vram)
	}
	return sum
}
