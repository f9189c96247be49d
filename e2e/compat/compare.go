package main

import (
	"os"
	"strconv"
	"strings"
)

// tolerance is the limit of T-COMPAT-01, as a fraction of the Python value.
const tolerance = 0.05

// comparison is one row of the table.
type comparison struct {
	name string
	note string // the formula, if it is not the formula of the published columns
	// apart: the two define the figure differently, so it is shown but not judged.
	apart bool
	// counter: the difference of a counter, not a level at one instant.
	counter bool
	// step is the resolution of the figure: one tick, one rounding or one packet.
	step   float64
	theirs func(*pair) (float64, bool)
	ours   func(*pair) (float64, bool)
}

// column compares a column of the CSV with Python's column of the same definition.
func column(ours, theirs string, counter bool, step float64) comparison {
	return comparison{name: ours, counter: counter, step: step, theirs: their(theirs), ours: our(ours)}
}

func their(name string) func(*pair) (float64, bool) {
	return func(p *pair) (float64, bool) { return p.theirs.column(name) }
}

func our(name string) func(*pair) (float64, bool) {
	return func(p *pair) (float64, bool) {
		v, ok := p.ours.row[name]
		return v, ok
	}
}

// differs shows the published columns and does not judge them.
func (c comparison) differs(why string) comparison {
	c.apart, c.note = true, why
	return c
}

// by compares the column as computed with another formula.
func (c comparison) by(note string, theirs, ours func(*pair) (float64, bool)) comparison {
	c.note = note
	if theirs != nil {
		c.theirs = theirs
	}
	if ours != nil {
		c.ours = ours
	}
	return c
}

func comparisons() []comparison {
	const packets, blocks = 4096, 64 << 10
	cpu := column("cpu_usage", "cpu_usage", true, 0.02)
	used := column("memory_used", "memory_used_mib", false, 1)
	read := column("disk_read_bytes", "disk_read_bytes", true, blocks)
	write := column("disk_write_bytes", "disk_write_bytes", true, blocks)
	all := []comparison{
		column("processes", "processes", false, 2),
		column("utime", "utime", true, 0.02),
		column("stime", "stime", true, 0.02),
		cpu.differs("Python: without irq, softirq, steal"),
		cpu.by("(utime + stime) / seconds", nil, ourCPU),
		column("memory_free", "memory_free_mib", false, 1),
		used.differs("Python: total - available"),
		used.by("total - available", nil, ourUsed),
		column("memory_buffers", "memory_buffers_mib", false, 1),
		column("memory_cached", "memory_cached_mib", false, 1),
		column("memory_active", "memory_active_mib", false, 1),
		column("memory_inactive", "memory_inactive_mib", false, 1),
		read.differs("Python: dm, md and loop too"),
		read.by("devices that both count", theirDisks(false), nil),
		write.differs("Python: dm, md and loop too"),
		write.by("devices that both count", theirDisks(true), nil),
	}
	for i, what := range []string{"total", "used", "free"} {
		c := column("disk_space_"+what+"_gb", "disk_space_"+what+"_gb", false, 0.01)
		all = append(all, c.differs("Python: every mount, tmpfs too"),
			c.by("file systems that both count", theirSpace(i), ourSpace(i)))
	}
	return append(all,
		column("net_recv_bytes", "net_recv_bytes", true, packets),
		column("net_sent_bytes", "net_sent_bytes", true, packets),
		column("gpu_usage", "gpu_usage", false, 0.02),
		column("gpu_vram", "gpu_vram_mib", false, 1),
		column("gpu_utilized", "gpu_utilized", false, 0))
}

func ourCPU(p *pair) (float64, bool) {
	u, ok1 := p.ours.row["utime"]
	s, ok2 := p.ours.row["stime"]
	return (u + s) / p.secs, ok1 && ok2 && p.secs > 0
}

func ourUsed(p *pair) (float64, bool) {
	total, ok1 := p.ours.snapshot.Node.MemTotal.Get()
	available, ok2 := p.ours.snapshot.Node.MemAvailable.Get()
	return (float64(total) - float64(available)) / (1 << 20), ok1 && ok2
}

// theirDisks sums over the devices that are in our sums. Python takes a sector of
// diskstats, 512 bytes, for a sector of the drive, which is wrong if that has 4096 bytes.
func theirDisks(written bool) func(*pair) (float64, bool) {
	return func(p *pair) (sum float64, ok bool) {
		for _, d := range p.ours.snapshot.Disks {
			now, ok1 := p.theirs.Disks[d.Name]
			before, ok2 := p.theirsBefore.Disks[d.Name]
			if !d.Leaf || !ok1 || !ok2 {
				continue
			}
			ok = true
			delta := now.Read - before.Read
			if written {
				delta = now.Write - before.Write
			}
			sum += delta * 512 / sectorSize(d.Name)
		}
		return sum, ok
	}
}

func sectorSize(device string) float64 {
	b, err := os.ReadFile("/sys/block/" + device + "/queue/hw_sector_size")
	if err != nil {
		return 512
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64); err == nil && n > 0 {
		return n
	}
	return 512
}

// The space of the file systems that are in both trackers' sums: 0 total, 1 used, 2 free, in GB.
func theirSpace(what int) func(*pair) (float64, bool) {
	return func(p *pair) (sum float64, ok bool) {
		for _, m := range p.ours.snapshot.Mounts {
			if s, both := p.theirs.Spaces[m.MountPoint]; both {
				sum, ok = sum+[]float64{s.Total, s.Used, s.Free}[what], true
			}
		}
		return sum / 1e9, ok
	}
}

func ourSpace(what int) func(*pair) (float64, bool) {
	return func(p *pair) (sum float64, ok bool) {
		for _, m := range p.ours.snapshot.Mounts {
			if _, both := p.theirs.Spaces[m.MountPoint]; both {
				total, free := float64(m.Total), float64(m.Available)
				sum, ok = sum+[]float64{total, total - free, free}[what], true
			}
		}
		return sum / 1e9, ok
	}
}
