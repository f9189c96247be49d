package cgroup

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// figure selects a figure of a reading.
type figure func(*rt.JobReading) *rt.Opt[uint64]

// keyed returns a parser for files with lines "key value". The map figures has the figure for each
// key.
func keyed(figures map[string]figure) func([]byte, *rt.JobReading) {
	return func(b []byte, r *rt.JobReading) {
		for len(b) > 0 {
			key, v, ok, rest := procfile.Pair(b)
			if f := figures[string(key)]; ok && f != nil {
				f(r).Set(v)
			}
			b = rest
		}
	}
}

// parseCPUStat parses the v2 file cpu.stat. Only the cpu controller adds throttled_usec.
var parseCPUStat = keyed(map[string]figure{
	"usage_usec":     func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUUsage },
	"user_usec":      func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUUser },
	"system_usec":    func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUSystem },
	"throttled_usec": func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUThrottled },
})

// parseCPUStatV1 parses the v1 file cpu.stat of the cpu controller: nanoseconds.
func parseCPUStatV1(b []byte, r *rt.JobReading) {
	if n, ok := parseKey(b, "throttled_time"); ok {
		r.CPUThrottled.Set(n / 1000)
	}
}

// parseCPUAcctStat parses the v1 file cpuacct.stat: user and system time in USER_HZ.
func parseCPUAcctStat(b []byte, r *rt.JobReading) {
	const microsPerTick = 1_000_000 / rt.TicksPerSecond
	set := func(o *rt.Opt[uint64], key string) {
		if v, ok := parseKey(b, key); ok && v <= math.MaxUint64/microsPerTick {
			o.Set(v * microsPerTick)
		}
	}
	set(&r.CPUUser, "user")
	set(&r.CPUSystem, "system")
}

// memoryStat returns a parser for memory.stat: bytes, and counts of faults. Active and inactive
// memory are on two lines each, whose names begin with prefix: the sum is absent if one is missing.
func memoryStat(prefix string, figures map[string]figure) func([]byte, *rt.JobReading) {
	const active, inactive = 0, 1
	parts := map[string]int{
		prefix + "active_anon": active, prefix + "active_file": active,
		prefix + "inactive_anon": inactive, prefix + "inactive_file": inactive,
	}
	return func(b []byte, r *rt.JobReading) {
		var sum [2]uint64
		var seen [2]int
		for len(b) > 0 {
			key, v, ok, rest := procfile.Pair(b)
			b = rest
			f := figures[string(key)]
			kind, isPart := parts[string(key)]
			switch {
			case !ok:
			case isPart:
				sum[kind] += v
				seen[kind]++
			case f != nil:
				f(r).Set(v)
			}
		}
		for kind, to := range [...]*rt.Opt[uint64]{active: &r.Active, inactive: &r.Inactive} {
			if seen[kind] == 2 {
				to.Set(sum[kind])
			}
		}
	}
}

// parseMemoryStat parses the v2 file memory.stat.
var parseMemoryStat = memoryStat("", map[string]figure{
	"anon":             func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Anon },
	"file":             func(r *rt.JobReading) *rt.Opt[uint64] { return &r.File },
	"kernel":           func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Kernel },
	"shmem":            func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Shmem },
	"slab_reclaimable": func(r *rt.JobReading) *rt.Opt[uint64] { return &r.SlabReclaimable },
	"pgfault":          func(r *rt.JobReading) *rt.Opt[uint64] { return &r.PageFaults },
	"pgmajfault":       func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MajorFaults },
})

// memoryStatV1 parses the v1 file memory.stat. Its total_ lines count for the directory and all
// directories below.
var memoryStatV1 = memoryStat("total_", map[string]figure{
	"total_rss":                 func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Anon },
	"total_cache":               func(r *rt.JobReading) *rt.Opt[uint64] { return &r.File },
	"total_shmem":               func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Shmem },
	"total_swap":                func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Swap },
	"total_pgfault":             func(r *rt.JobReading) *rt.Opt[uint64] { return &r.PageFaults },
	"total_pgmajfault":          func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MajorFaults },
	"hierarchical_memory_limit": func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MemLimit },
})

// parseMemoryStatV1 is memoryStatV1 with the limit as v2 has it.
func parseMemoryStatV1(b []byte, r *rt.JobReading) {
	memoryStatV1(b, r)
	if n, ok := r.MemLimit.Get(); ok && n >= unlimitedV1 {
		r.MemLimit.Set(rt.Unlimited)
	}
}

// unlimitedV1 is the lowest v1 limit that is read as "no limit". The kernel prints "no limit" as
// the largest multiple of the page size below 2^63.
const unlimitedV1 = 1 << 62

// parseMemoryEvents parses the v2 file memory.events, which counts for the directory and all
// directories below.
var parseMemoryEvents = keyed(map[string]figure{
	"high":     func(r *rt.JobReading) *rt.Opt[uint64] { return &r.EventsHigh },
	"max":      func(r *rt.JobReading) *rt.Opt[uint64] { return &r.EventsMax },
	"oom":      func(r *rt.JobReading) *rt.Opt[uint64] { return &r.EventsOOM },
	"oom_kill": func(r *rt.JobReading) *rt.Opt[uint64] { return &r.EventsOOMKill },
})

// parseKey returns the value of the line "key value". Such lines are oom_kill in the v1 file
// memory.oom_control (Linux 4.13) and populated in the v2 file cgroup.events.
func parseKey(b []byte, key string) (uint64, bool) {
	for len(b) > 0 {
		k, v, ok, rest := procfile.Pair(b)
		if ok && string(k) == key {
			return v, true
		}
		b = rest
	}
	return 0, false
}

// eachNumber parses lines of the form "name key=number key=number" and calls f for each number.
func eachNumber(b []byte, f func(name, key []byte, n uint64)) {
	for line := range procfile.Lines(b) {
		name, rest := procfile.Field(line)
		for len(rest) > 0 {
			var field []byte
			field, rest = procfile.Field(rest)
			key, value, _ := bytes.Cut(field, equals)
			if n, ok := procfile.Uint(value); ok {
				f(name, key, n)
			}
		}
	}
}

var equals = []byte{'='}

// parsePressure parses a PSI file. Its lines are "some avg10=0.00 avg60=0.00
// avg300=0.00 total=630180"; total is in microseconds. Before Linux 5.13 cpu.pressure has no
// line "full".
func parsePressure(b []byte, some, full *rt.Opt[uint64]) {
	eachNumber(b, func(kind, key []byte, n uint64) {
		isTotal := string(key) == "total"
		switch {
		case isTotal && string(kind) == "some":
			some.Set(n)
		case isTotal && string(kind) == "full":
			full.Set(n)
		}
	})
}

// parseRDMA sums rdma.current over the devices: "mlx5_0 hca_handle=2 hca_object=2000".
// The file is empty if there is no device.
func parseRDMA(b []byte, handles, objects *rt.Opt[uint64]) {
	eachNumber(b, func(_, key []byte, n uint64) {
		switch string(key) {
		case "hca_handle":
			addFigure(handles, rt.Some(n))
		case "hca_object":
			addFigure(objects, rt.Some(n))
		}
	})
}

const (
	cpuStat       = "cpu.stat"
	nanosPerMicro = 1000
)

// stepFilesV1 are the files of a job, step or task in v1. Each counts for its directory and all
// directories below, including those that were removed. memory.failcnt and oom_kill of
// memory.oom_control count only for their own directory. The list lacks these two files: the type
// directoryFiles reads them.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/
func stepFilesV1(stacked majors) []file {
	return []file{
		{controller: "cpuacct", name: "cpuacct.usage", parse: scaled(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUUsage }, nanosPerMicro)},
		{controller: "cpuacct", name: "cpuacct.usage_user", parse: scaled(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUUser }, nanosPerMicro)},  // Linux 4.6
		{controller: "cpuacct", name: "cpuacct.usage_sys", parse: scaled(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUSystem }, nanosPerMicro)}, // Linux 4.6
		{controller: "cpuacct", name: "cpuacct.stat", parse: parseCPUAcctStat, isFallback: true},
		{controller: "memory", name: "memory.usage_in_bytes", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MemCurrent })}, // with page cache
		{controller: "memory", name: "memory.max_usage_in_bytes", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MemPeak })},
		{controller: "memory", name: "memory.stat", parse: parseMemoryStatV1},
		{controller: "blkio", name: "blkio.throttle.io_service_bytes_recursive", parse: func(b []byte, r *rt.JobReading) {
			read, write := parseBlkio(b, stacked)
			r.IOReadBytes.Set(read)
			r.IOWriteBytes.Set(write)
		}},
	}
}

// jobFilesV1 are the files that only a job's reading has. cpu.stat counts only for its own
// directory, not for those below.
func jobFilesV1() []file {
	return []file{
		{controller: "cpu", name: "cpu.stat", parse: parseCPUStatV1},
		{controller: "pids", name: "pids.current", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Threads })},
	}
}

// number parses a file that holds one number.
func number(field figure) func([]byte, *rt.JobReading) { return scaled(field, 1) }

// scaled parses a file that holds one number, and divides the number.
func scaled(field figure, divisor uint64) func([]byte, *rt.JobReading) {
	return func(b []byte, r *rt.JobReading) {
		if n, ok := parseNumber(b); ok {
			field(r).Set(n / divisor)
		}
	}
}

// stepFilesV2 are the files of a job, step or task in v2. Each counts for its directory and all
// directories below, including those that were removed. cpu.stat must be the first file, because
// EnterJob reads the first one separately.
//
// https://docs.kernel.org/admin-guide/cgroup-v2.html
func stepFilesV2(stacked majors) []file {
	return []file{
		{name: cpuStat, parse: parseCPUStat},
		{name: "memory.current", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MemCurrent })}, // with page cache
		{name: "memory.peak", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.MemPeak })},       // Linux 5.19
		{name: "memory.stat", parse: parseMemoryStat},
		{name: "memory.events", parse: parseMemoryEvents},
		{name: "io.stat", parse: func(b []byte, r *rt.JobReading) {
			read, write := parseIOStat(b, stacked)
			r.IOReadBytes.Set(read)
			r.IOWriteBytes.Set(write)
		}},
	}
}

// jobFilesV2 are the files that only a job's reading has. Which of them exist depends
// on the kernel and on the controllers that the site enables.
func jobFilesV2() []file {
	return []file{
		{name: "memory.max", parse: parseMemoryMax}, // Slurm sets the allocated memory here
		{name: "memory.swap.current", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Swap })},
		{name: "memory.swap.peak", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.SwapPeak })}, // Linux 6.5
		{name: "cpu.pressure", parse: func(b []byte, r *rt.JobReading) { parsePressure(b, &r.CPUStallSome, &r.CPUStallFull) }},
		{name: "memory.pressure", parse: func(b []byte, r *rt.JobReading) { parsePressure(b, &r.MemStallSome, &r.MemStallFull) }},
		{name: "io.pressure", parse: func(b []byte, r *rt.JobReading) { parsePressure(b, &r.IOStallSome, &r.IOStallFull) }},
		{name: "pids.current", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Threads })},
		{name: "rdma.current", parse: func(b []byte, r *rt.JobReading) { parseRDMA(b, &r.RDMAHandles, &r.RDMAObjects) }},
	}
}

// parseMemoryMax parses memory.max: a number of bytes or "max".
func parseMemoryMax(b []byte, r *rt.JobReading) {
	if string(procfile.Trim(b)) == "max" {
		r.MemLimit.Set(rt.Unlimited)
		return
	}
	if n, ok := parseNumber(b); ok {
		r.MemLimit.Set(n)
	}
}

// majors are major numbers of block devices.
type majors []uint64

// hides reports whether to skip a device: the major number belongs to a stacked device, or
// the text is not "major:minor".
func (m majors) hides(device []byte) bool {
	before, after, _ := bytes.Cut(device, []byte{':'})
	major, ok := procfile.Uint(before)
	_, isDevice := procfile.Uint(after)
	return !ok || !isDevice || slices.Contains(m, major)
}

// readStackedMajors reads the major numbers of block devices that are stacked on others (device
// mapper, md, loop, zram) from <procRoot>/devices. The kernel counts the I/O of such a device again
// at the device below. The kernel assigns most of these numbers at run time. Without the file the
// list is empty.
func readStackedMajors(procRoot string) majors {
	b, err := os.ReadFile(filepath.Join(procRoot, "devices"))
	if err != nil {
		return nil
	}
	return parseStackedMajors(b)
}

// parseStackedMajors parses the lines "253 device-mapper" of the block devices.
func parseStackedMajors(b []byte) majors {
	var out majors
	block := false
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) == 2 && f[1] == "devices:" {
			block = f[0] == "Block"
			continue
		}
		if !block || len(f) != 2 {
			continue
		}
		switch f[1] {
		case "device-mapper", "md", "mdp", "loop", "zram":
			if n, err := strconv.ParseUint(f[0], 10, 64); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// parseIOStat sums the bytes of the v2 file io.stat over the devices that are not stacked
// on others. A line is "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6"; the file is
// empty before the first I/O. Linux 5.15 prints the name of a device without I/O and no
// newline. So a line can have several names: the last one before the figures is their
// device.
func parseIOStat(b []byte, stacked majors) (read, write uint64) {
	for line := range procfile.Lines(b) {
		var device []byte
		for len(line) > 0 {
			var word []byte
			word, line = procfile.Field(line)
			key, value, isFigure := bytes.Cut(word, equals)
			n, ok := procfile.Uint(value)
			switch {
			case !isFigure:
				device = word
			case !ok, stacked.hides(device):
			case string(key) == "rbytes":
				read += n
			case string(key) == "wbytes":
				write += n
			}
		}
	}
	return read, write
}

// parseBlkio sums the bytes of the v1 file blkio.throttle.io_service_bytes_recursive over the
// devices that are not stacked on others. A line is "8:0 Read 4096"; the last one, "Total 4096",
// names no device.
func parseBlkio(b []byte, stacked majors) (read, write uint64) {
	for line := range procfile.Lines(b) {
		device, rest := procfile.Field(line)
		kind, value := procfile.Field(rest)
		n, ok := parseNumber(procfile.Trim(value))
		switch {
		case !ok, stacked.hides(device):
		case string(kind) == "Read":
			read += n
		case string(kind) == "Write":
			write += n
		}
	}
	return read, write
}
