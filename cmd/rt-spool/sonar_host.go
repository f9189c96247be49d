package main

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/sonar"
)

// userNames returns a function that asks for each user once.
func userNames() func(uid uint64) string {
	known := map[uint64]string{}
	return func(uid uint64) string {
		if name, ok := known[uid]; ok {
			return name
		}
		name := sonar.NoInfoUID(uid)
		if u, err := user.LookupId(strconv.FormatUint(uid, 10)); err == nil && u.Username != "" {
			name = u.Username
		}
		known[uid] = name
		return name
	}
}

// jobOf is the Slurm job of a process: by its cgroup, whose name nobody but Slurm
// gives, else by SLURM_JOB_ID of its environment where we may read it; 0 for none.
func jobOf(procRoot string, p *proc.Listed) uint64 {
	if job := jobOfCgroup(p.Cgroup); job != 0 {
		return job
	}
	f, err := os.Open(filepath.Join(procRoot, strconv.Itoa(p.PID), "environ"))
	if err != nil {
		return 0 // another user's, or it has ended
	}
	defer f.Close() // opened for reading: nothing can be lost
	environ := make([]byte, maxEnviron)
	n, err := f.Read(environ)
	if err != nil {
		return 0
	}
	for variable := range bytes.SplitSeq(environ[:n], []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte("SLURM_JOB_ID=")); ok {
			job, _ := strconv.ParseUint(string(value), 10, 32) // anybody may set it to anything
			return job
		}
	}
	return 0
}

// maxEnviron bounds what is read of one process's environment, in bytes.
const maxEnviron = 64 << 10

// jobOfCgroup finds the directory job_<id> in the lines of /proc/<pid>/cgroup.
func jobOfCgroup(text string) uint64 {
	for line := range strings.Lines(text) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if id, ok := strings.CutPrefix(part, "job_"); ok {
				if job, err := strconv.ParseUint(id, 10, 32); err == nil {
					return job
				}
			}
		}
	}
	return 0
}

// gpuUse is what each process uses of the GPUs.
func (at *sonarTaken) gpuUse() map[int]sonarProcess {
	byUUID := map[string]*rt.GPUReading{}
	for i := range at.host.GPUs {
		byUUID[at.host.GPUs[i].UUID] = &at.host.GPUs[i]
	}
	use := map[int]sonarProcess{}
	for _, p := range at.gpus {
		g, ok := byUUID[p.UUID]
		if !ok {
			continue
		}
		u := use[int(p.PID)]
		u.gpus = union(u.gpus, []uint32{gpuIndex(at.host.GPUs, g)})
		u.gpuUse += p.Utilization.Or(0)
		u.gpuBytes += p.VRAMUsed.Or(0)
		if total := g.VRAMTotal.Or(0); total > 0 {
			u.gpuMem += float64(p.VRAMUsed.Or(0)) / float64(total) * 100
		}
		use[int(p.PID)] = u
	}
	return use
}

// gpuIndex is the number of a GPU, which a MIG instance shares with the GPU that
// it is part of, or its place among the GPUs where the driver counts none.
func gpuIndex(all []rt.GPUReading, g *rt.GPUReading) uint32 {
	number, _, _ := strings.Cut(g.Host, ":") // NVIDIA: 1, and 1:0 for an instance; AMD: a PCI address, 0000:03:00.0
	if n, err := strconv.ParseUint(number, 10, 31); err == nil && !strings.Contains(g.Host, ".") {
		return uint32(n)
	}
	for i, o := range wholeGPUs(all) {
		if o.UUID == g.UUID {
			return uint32(i)
		}
	}
	return 0
}

// wholeGPUs are the GPUs without the MIG instances.
func wholeGPUs(all []rt.GPUReading) []*rt.GPUReading {
	var out []*rt.GPUReading
	for i := range all {
		if all[i].Detail["parent_uuid"] == "" {
			out = append(out, &all[i])
		}
	}
	return out
}

// sonarLoad is the busy time of each CPU since boot in seconds.
func sonarLoad(s *rt.Snapshot) []uint64 {
	seconds := make([]uint64, len(s.CPUs))
	for i := range s.CPUs {
		seconds[i] = s.CPUs[i].Times.Busy() / rt.TicksPerSecond
	}
	return seconds
}

// sonarGPUs is what the GPUs did, as far as it was read.
func sonarGPUs(all []rt.GPUReading) []sonar.GPU {
	var out []sonar.GPU
	for _, g := range wholeGPUs(all) {
		out = append(out, sonar.GPU{
			MemUseKiB: g.VRAMUsed.Or(0) >> 10, UtilPct: uint64(max(0, g.Utilization.Or(0))), TempC: g.Temperature.Or(0),
			PowerW: uint64(max(0, g.Power.Or(0))), ClockMHz: g.Frequency.Or(0),
		})
	}
	return out
}

// sonarCards describes the GPUs.
func sonarCards(all []rt.GPUReading) []sonar.Card {
	var out []sonar.Card
	for _, g := range wholeGPUs(all) {
		c := sonar.Card{
			BusAddr: g.Detail["pci_bus_id"], Index: uint64(gpuIndex(all, g)), UUID: g.UUID, Manufacturer: "AMD", Model: g.Name,
			Driver: g.Detail["driver_version"], Firmware: g.Detail["vbios_version"], MemSizeKiB: g.VRAMTotal.Or(0) >> 10,
		}
		if g.Detail["nvml_version"] != "" {
			c.Manufacturer = "NVIDIA"
		}
		out = append(out, c)
	}
	return out
}

// sonarDescription is the host in one line for people.
func sonarDescription(h *rt.Host, cards []sonar.Card) string {
	model := h.CPUModel
	if model == "" {
		model = "CPUs of an unknown model"
	}
	parts := []string{fmt.Sprintf("%dx %s", h.VCPUs.Or(0), model), fmt.Sprintf("%d GiB", h.MemoryMiB.Or(0)>>10)}
	for i := 0; i < len(cards); {
		n := i + 1
		for n < len(cards) && cards[n].Model == cards[i].Model && cards[n].MemSizeKiB == cards[i].MemSizeKiB {
			n++
		}
		parts = append(parts, fmt.Sprintf("%dx %s @ %d GiB", n-i, cards[i].Model, cards[i].MemSizeKiB>>20))
		i = n
	}
	return strings.Join(parts, ", ")
}
