// Package gpu reads the GPUs of the node: NVIDIA's through NVML, a library of the
// driver that is loaded while the program runs, and AMD's from what the module
// amdgpu shows below /sys. A node that has neither is a node without GPUs: no
// device, sums of zero, no error and no library loaded.
//
// What a device cannot say is absent. With MIG on, an NVIDIA GPU stands in the list
// with what it alone knows, its temperature, power and clock, and each of its MIG
// instances follows as a device of its own with its memory. The GPU's own memory is
// absent then, so that no sum over the list counts a byte twice, and so is
// utilization, which NVML reports for neither.
//
// While a program has NVML open it is a client of the driver: the GPU keeps its
// state between jobs' processes, and nvidia-smi cannot reset it or change its MIG
// mode until Close.
package gpu

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	// patience is how long a reading waits for the drivers, all together.
	patience = 100 * time.Millisecond
	// lookAgain is how often is looked for what may have come or gone: a driver, a
	// GPU, a MIG instance.
	lookAgain = time.Minute
)

// Source reads the GPUs of the node and what is summed over them. It is used by one
// goroutine at a time, as a collect.Source.
type Source struct {
	dev, sys    string
	patience    time.Duration
	processes   bool     // whether drivers list them
	details     bool     // whether drivers are asked for them
	tracked     *tracker // whose processes are told apart; nil for nobody's
	nvidia, amd bool     // whether drivers has them
	drivers     []*worker
	look        time.Time // when to look for drivers again
	wait        waiting
	now         reading // of the newest Read; its devices are the snapshot's
}

// Option changes what a Source reads.
type Option func(*Source)

// WithProcesses has each reading ask for all processes on the GPUs, see Processes.
func WithProcesses() Option { return func(s *Source) { s.processes = true } }

// New returns the source for the devices below devRoot (/dev) and sysRoot (/sys).
// Nothing is looked for or loaded before the first reading.
func New(devRoot, sysRoot string, options ...Option) *Source {
	s := &Source{dev: devRoot, sys: sysRoot, patience: patience}
	for _, o := range options {
		o(s)
	}
	return s
}

// Name is what the ledger calls the source.
func (s *Source) Name() string { return "gpu" }

// Close gives the drivers back. One that hangs is left behind.
func (s *Source) Close() error {
	for _, w := range s.drivers {
		w.stop()
	}
	s.wait.start(s.patience)
	for _, w := range s.drivers {
		s.wait.on(w.gone)
	}
	s.drivers, s.nvidia, s.amd, s.look = nil, false, false, time.Time{}
	return nil
}

// Read fills the devices and their sums in, section 6.1.5. It waits 100 ms at most:
// a driver that has not answered then costs its devices their values, and so does a
// device that fails. The error says which and why; the rest of the reading is good.
// In its first 10 s a driver may be silent without an error, because it then wakes
// up GPUs that nobody used.
func (s *Source) Read(snap *rt.Snapshot) error {
	if now := time.Now(); !now.Before(s.look) {
		s.find()
		s.look = now.Add(lookAgain)
	}
	for _, w := range s.drivers {
		w.begin()
	}
	s.wait.start(s.patience)
	s.now.reset()
	s.now.devices = snap.GPUs[:0]
	for _, w := range s.drivers {
		w.finish(&s.wait, &s.now)
	}
	snap.GPUs = s.now.devices
	snap.Energy = append(snap.Energy, s.now.energy...)
	all := s.now.sumDevices(func(*rt.GPUReading) bool { return true })
	snap.Node.GPUUsage, snap.Node.GPUVRAMUsed, snap.Node.GPUUtilized = all.Usage, all.VRAMUsed, all.Utilized
	if s.tracked != nil {
		s.tracked.attribute(&s.now, snap)
	}
	return s.now.err
}

// Processes appends the processes that the newest Read found on the GPUs, whoever
// they are. There are none without WithProcesses or WithTracked, and of AMD's GPUs.
func (s *Source) Processes(dst []rt.GPUProcessReading) []rt.GPUProcessReading {
	return append(dst, s.now.processes...)
}

// find begins to use the drivers that the node has by now: NVIDIA's has made
// /dev/nvidiactl, AMD's is the module amdgpu. NVML is not loaded to find out,
// because it would load the kernel's module where that is only installed.
func (s *Source) find() {
	if !s.nvidia && exists(filepath.Join(s.dev, "nvidiactl")) {
		s.nvidia = true
		s.drivers = append(s.drivers, newWorker(s.detailed(newNVIDIA(s.processes))))
	}
	if !s.amd && exists(filepath.Join(s.sys, "module/amdgpu")) {
		s.amd = true
		s.drivers = append(s.drivers, newWorker(s.detailed(newAMD(s.sys))))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// reading is what the devices of one driver, or of all, have said.
type reading struct {
	devices   []rt.GPUReading
	energy    []rt.EnergyReading
	processes []rt.GPUProcessReading // on NVIDIA's GPUs, by the pids of the node's namespace
	details   []Details
	// A device that reports its utilization or its memory failed to do so now:
	// a sum without it would be too low.
	usageShort, vramShort bool
	processesShort        bool  // a device has not listed its processes
	late                  bool  // a driver has not answered in time
	err                   error // what went wrong, of one device or all
}

func (r *reading) reset() {
	*r = reading{devices: r.devices[:0], energy: r.energy[:0], processes: r.processes[:0], details: r.details[:0]}
}

// fail says that something went wrong, beside what else did.
func (r *reading) fail(err error) {
	if err != nil {
		r.err = errors.Join(r.err, err)
	}
}

// sumDevices adds up what the chosen devices said. A value that a device does not
// report, or no longer because it fell off the bus, is left out of its sum; one
// that could not be read this time makes the sum absent, as does a choice of which
// no device reports it. Over no device at all the sums are 0.
func (r *reading) sumDevices(chosen func(g *rt.GPUReading) bool) (sum rt.GPUUse) {
	var percent float64
	var n, utilized, vram uint64
	var usageRead, vramRead bool
	for i := range r.devices {
		g := &r.devices[i]
		if !chosen(g) {
			continue
		}
		n++
		if v, ok := g.Utilization.Get(); ok {
			usageRead = true
			percent += v
			if v > 0 {
				utilized++
			}
		}
		if v, ok := g.VRAMUsed.Get(); ok {
			vramRead = true
			vram += v
		}
	}
	none := n == 0 && (len(r.devices) > 0 || r.err == nil)
	if (usageRead || none) && !r.usageShort {
		sum.Usage.Set(percent / 100)
		sum.Utilized.Set(utilized)
	}
	if (vramRead || none) && !r.vramShort {
		sum.VRAMUsed.Set(vram)
	}
	return sum
}
