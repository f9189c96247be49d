package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

const netDevHeading = "Inter-|   Receive                                                |  Transmit\n" +
	" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"

// plain is a machine with 2 processors that were idle, to hang devices on.
func plain(apart time.Duration) machine {
	ticks := uint64(apart.Seconds() * 100)
	stat := func(idle uint64) string {
		return fmt.Sprintf("cpu  20 0 20 %d 0 0 0 0 0 0\ncpu0 10 0 10 %d 0 0 0 0 0 0\ncpu1 10 0 10 %d 0 0 0 0 0 0\n", 2*idle, idle, idle)
	}
	m := machine{before: map[string]string{
		"proc/stat": stat(1000),
		"proc/meminfo": "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 6291456 kB\nBuffers: 10240 kB\nCached: 2097152 kB\n" +
			"Active: 1048576 kB\nInactive: 524288 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nSReclaimable: 102400 kB\n",
		"proc/net/dev":   netDevHeading + "    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
		"proc/diskstats": "",
	}, links: map[string]string{}, apart: apart}
	m.after = maps.Clone(m.before)
	m.after["proc/stat"] = stat(1000 + ticks)
	return m
}

// both sets files that do not change.
func (m *machine) both(files map[string]string) {
	maps.Copy(m.before, files)
	maps.Copy(m.after, files)
}

// twoSockets is a node with two sockets of 32 cores, two threads each: processor n
// and n+64 are threads of a core. 5 and 69 are offline: /proc/stat has no line of
// theirs, and their time, which stands still, is in the node's line.
func twoSockets() machine {
	m := plain(5 * time.Second)
	stat := func(after bool) string {
		var lines strings.Builder
		var sum [8]uint64
		for n := range uint64(128) {
			v := [8]uint64{1000 + 7*n, 3 * n, 500 + n, 90000 - 11*n, 10 + n%5, n % 3, 20 + n%7, n % 2}
			offline := n == 5 || n == 69
			if after && !offline { // 500 ticks in 5 s: busier the higher the number
				busy := 4 * (n % 120)
				for i, add := range [8]uint64{busy / 2, busy / 8, busy - busy/2 - busy/8 - n%4, 500 - busy - n%3, n % 3, n % 2, n%4 - n%4/3 - n%2, n % 4 / 3} {
					v[i] += add
				}
			}
			for i := range sum {
				sum[i] += v[i]
			}
			if !offline {
				fmt.Fprintf(&lines, "cpu%d %s 0 0\n", n, words(v[:]))
			}
		}
		return fmt.Sprintf("cpu  %s 0 0\n%sintr 1\n", words(sum[:]), lines.String())
	}
	m.before["proc/stat"], m.after["proc/stat"] = stat(false), stat(true)
	m.both(map[string]string{
		"proc/meminfo": "MemTotal: 1056458332 kB\nMemFree: 700000000 kB\nMemAvailable: 900000000 kB\nBuffers: 2000000 kB\nCached: 150000000 kB\n" +
			"Active: 120000000 kB\nInactive: 90000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nSReclaimable: 9000001 kB\n",
		"sys/devices/system/cpu/online": "0-4,6-68,70-127\n",
	})
	for pid := 2; pid <= 1500; pid += 3 {
		m.both(map[string]string{fmt.Sprintf("proc/%d/comm", pid): "x\n"})
	}
	return m
}

func words(v []uint64) string { return strings.Trim(fmt.Sprint(v), "[]") }

// drives is a node with 8 NVMe drives. A partition table is on the first, an array over 2 to 5, a
// logical volume on the array and one on 6 and 7. A volume and the drives below count the same
// work. The first drive has two paths, and the kernel hides one.
func drives() machine {
	m := plain(2500 * time.Millisecond)
	before, after := &strings.Builder{}, &strings.Builder{}
	line := func(minor int, name string, read, wrote, readMore, wroteMore int) {
		const format = " 259 %7d %s 1000 5 %d 400 2000 6 %d 800 0 900 1200 0 0 0 0 0 0\n"
		fmt.Fprintf(before, format, minor, name, read, wrote)
		fmt.Fprintf(after, format, minor, name, read+readMore, wrote+wroteMore)
	}
	device := func(name string, sectors int, files map[string]string, below ...string) {
		all := map[string]string{"dev": "259:0\n", "size": fmt.Sprintln(sectors), "queue/rotational": "0\n"}
		maps.Copy(all, files)
		for file, text := range all {
			m.both(map[string]string{"sys/block/" + name + "/" + file: text})
		}
		for _, b := range below {
			m.links["sys/block/"+name+"/slaves/"+b] = "../../" + b
		}
	}
	for i := range 8 {
		name := fmt.Sprintf("nvme%dn1", i)
		line(i, name, 1000000*(i+1), 500000*(i+1), 1001*i, 2003*(8-i))
		device(name, 7501476528, map[string]string{
			"device/model": "SAMSUNG MZQL23T8HCLS-00A07              \n", "device/serial": fmt.Sprintf("S64HNE0R5%05d      \n", i),
			"wwid": fmt.Sprintf("eui.36344830525%05d0025384300000001\n", i),
		})
	}
	line(20, "nvme0n1p1", 900000, 400000, 0, 2003*8)
	m.both(map[string]string{"sys/block/nvme0n1/nvme0n1p1/partition": "1\n"})
	line(21, "nvme0c0n1", 1000000, 500000, 0, 2003*8)
	device("nvme0c0n1", 7501476528, map[string]string{"hidden": "1\n"})
	line(22, "md127", 2000, 3000, 2002+3003, 12018)
	device("md127", 30005380096, nil, "nvme2n1", "nvme3n1", "nvme4n1", "nvme5n1")
	line(23, "dm-0", 2000, 3000, 5005, 12018)
	device("dm-0", 30005379072, map[string]string{"dm/name": "vg-scratch\n"}, "md127")
	line(24, "dm-1", 77, 88, 6006, 4006)
	device("dm-1", 15002951680, nil, "nvme6n1", "nvme7n1")
	line(25, "loop0", 500, 0, 100, 0)
	device("loop0", 1000, nil)
	m.before["proc/diskstats"], m.after["proc/diskstats"] = before.String(), after.String()

	// For the program itself: the root of the machine that tests, on the first drive.
	m.both(map[string]string{"proc/1/mountinfo": "27 1 259:20 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n"})
	m.links["sys/dev/block/259:20"] = "../../block/nvme0n1/nvme0n1p1"
	m.given.mounts = []rt.MountReading{
		{Disk: "nvme0n1", MountPoint: "/", FSType: "ext4", Total: 3_780_000_000_512, Available: 3_000_000_000_000, Used: 590_000_000_512},
		{Disk: "dm-0", MountPoint: "/scratch", FSType: "xfs", Total: 15_000_000_000_000, Available: 1, Used: 14_999_999_999_999},
		{Disk: "dm-1", MountPoint: "/local \"a\"\tb", FSType: "xfs", Total: 7_600_000_000_000, Available: 7_600_000_000_000},
	}
	return m
}

// gpus is a node with 8 GPUs. The fourth is partitioned: it shows temperature, power and clock, and
// its two instances show the memory (collect/gpu).
func gpus() machine {
	const gib = 1 << 30
	m := plain(time.Second)
	detail := func(i int, more ...string) map[string]string {
		d := map[string]string{"driver_version": "570.86.15", "pci_bus_id": fmt.Sprintf("00000000:%02X:00.0", 0x10+i)}
		for k := range slices.Chunk(more, 2) {
			d[k[0]] = k[1]
		}
		return d
	}
	for i := range 8 {
		g := rt.GPUReading{
			UUID: fmt.Sprintf("GPU-%04d", i), Name: "NVIDIA A100-SXM4-80GB", Type: "GPU", Host: fmt.Sprint(i), Detail: detail(i),
			Temperature: rt.Some(uint64(40 + i)), Power: rt.Some(61.25 + 50*float64(i)), Frequency: rt.Some[uint64](1410), Cores: rt.Some[uint64](6912),
		}
		if i == 3 {
			g.Detail = detail(i, "mig_mode", "enabled")
			m.given.gpus = append(m.given.gpus, g)
			for k, id := range []string{"1", "2"} {
				m.given.gpus = append(m.given.gpus, rt.GPUReading{
					UUID: "MIG-" + id, Name: g.Name + " MIG 3g.40gb", Type: "GPU", Host: fmt.Sprintf("3:%d", k),
					VRAMTotal: rt.Some[uint64](40 * gib), VRAMUsed: rt.Some(uint64(k) * 5 * gib), Detail: detail(i, "parent_uuid", g.UUID, "gpu_instance_id", id),
				})
			}
			continue
		}
		g.Utilization, g.VRAMTotal, g.VRAMUsed = rt.Some(float64(i)*12.5), rt.Some[uint64](80*gib), rt.Some(uint64(i)*gib+gib/3)
		m.given.gpus = append(m.given.gpus, g)
	}
	// 12.5 % x (0 + 1 + 2 + 4 + 5 + 6 + 7). 25 GiB, 7 thirds and the instance's 5. All but the
	// first.
	m.given.usage, m.given.vram, m.given.busy = 3.125, 30*gib+7*(gib/3), 6
	return m
}
