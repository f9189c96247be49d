package sonar

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	collecthost "github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm/layout"
)

// userNames returns a function that returns the name of a user. It looks up each user once.
func userNames() func(uid uint64) string {
	known := map[uint64]string{}
	return func(uid uint64) string {
		if name, ok := known[uid]; ok {
			return name
		}
		name := NoInfoUID(uid)
		if u, err := user.LookupId(strconv.FormatUint(uid, 10)); err == nil && u.Username != "" {
			name = u.Username
		}
		known[uid] = name
		return name
	}
}

// jobOf returns the job of a process as Sonar does: the Slurm job of its cgroup, else its process
// group. The environment is not used, because a user may set SLURM_JOB_ID to any text.
func jobOf(p *proc.Listed) (job uint64, isSlurm bool) {
	path, _ := layout.ParseProcess(p.Cgroup)
	if job, ok := path.JobID.Get(); ok {
		return job, true
	}
	return uint64(p.PGRP), false
}

// epochStart is the start of 2020 in seconds since 1970. Sonar's field epoch counts from it.
const epochStart = 1577836800

// describe returns a description of the host in one line.
func describe(h *rt.Host, cards []Card) string {
	model := cmp.Or(h.CPUModel, "CPUs of an unknown model")
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

// WriteSysinfo writes the record of this host that sonar sysinfo would write.
func WriteSysinfo(ctx context.Context, w io.Writer, gpus *gpu.Source, hostname string, asJSON bool) error {
	facts := collecthost.Read(collecthost.NewRoots("/proc", "/sys"))
	readings, _ := gpu.ReadOnce(ctx, gpus) // the record has the GPUs that were read
	s := sysinfo(&facts, readings, gpus.Details())
	s.Timestamp, s.Hostname = time.Now(), hostname
	write := s.AppendCSV
	if asJSON {
		write = s.AppendJSON
	}
	out, err := write(nil)
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}

func sysinfo(h *rt.Host, gpus []rt.GPUReading, details []gpu.Details) *Sysinfo {
	s := &Sysinfo{Version: Version, CPUCores: h.VCPUs.Or(0), MemGB: h.MemoryMiB.Or(0) >> 10, GPUInfo: cards(gpus, details)}
	s.GPUCards = uint64(len(s.GPUInfo))
	var kib uint64
	for i := range gpus { // a GPU with MIG on has its memory in its instances
		kib += gpus[i].VRAMTotal.Or(0) >> 10
	}
	s.GPUMemGB = kib >> 20
	s.Description = describe(h, s.GPUInfo)
	return s
}

// gpuUse returns how each process uses GPUs, by process id.
func (m *Machine) gpuUse() map[int]Sample {
	byUUID := map[string]*rt.GPUReading{}
	for i := range m.snap.GPUs {
		byUUID[m.snap.GPUs[i].UUID] = &m.snap.GPUs[i]
	}
	use := map[int]Sample{}
	for _, p := range m.gpus {
		g, ok := byUUID[p.UUID]
		if !ok {
			continue
		}
		u := use[int(p.PID)]
		u.GPUs.Indices = union(u.GPUs.Indices, []uint32{gpuIndex(m.snap.GPUs, g)})
		u.GPUPct += p.Utilization.Or(0)
		u.GPUKiB += p.VRAMUsed.Or(0) >> 10
		if total := g.VRAMTotal.Or(0); total > 0 {
			u.GPUMemPct += float64(p.VRAMUsed.Or(0)) / float64(total) * 100
		}
		use[int(p.PID)] = u
	}
	return use
}

// cards describes the GPUs.
func cards(all []rt.GPUReading, details []gpu.Details) []Card {
	var out []Card
	for _, g := range wholeGPUs(all) {
		d := detailsOf(details, g.UUID)
		c := Card{
			BusAddr: g.Detail["pci_bus_id"], Index: uint64(gpuIndex(all, g)), UUID: g.UUID, Manufacturer: "AMD", Model: g.Name,
			Arch: d.Architecture, Driver: g.Detail["driver_version"], Firmware: cmp.Or(d.Firmware, g.Detail["vbios_version"]),
			MemSizeKiB: g.VRAMTotal.Or(0) >> 10, PowerLimitW: natural(d.PowerLimit), MinPowerLimitW: natural(d.MinPowerLimit),
			MaxPowerLimitW: natural(d.MaxPowerLimit), MaxClockMHz: d.MaxClock.Or(0), MaxMemClockMHz: d.MaxMemClock.Or(0),
		}
		if g.Detail["nvml_version"] != "" {
			c.Manufacturer = "NVIDIA"
		}
		out = append(out, c)
	}
	return out
}
