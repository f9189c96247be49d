package counters

import (
	"bytes"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// unlimitedV1 is the lowest v1 limit that means "no limit", which is the largest
// multiple of the page size below 2^63.
const unlimitedV1 = 1 << 62

// parseCPUStat parses the v2 file cpu.stat, microseconds; only the cpu controller adds
// throttled_usec.
func parseCPUStat(b []byte, r *rt.JobReading) {
	for len(b) > 0 {
		key, v, ok, rest := procfile.Pair(b)
		b = rest
		if !ok {
			continue
		}
		switch string(key) {
		case "usage_usec":
			r.CPUUsage.Set(v)
		case "user_usec":
			r.CPUUser.Set(v)
		case "system_usec":
			r.CPUSystem.Set(v)
		case "throttled_usec":
			r.CPUThrottled.Set(v)
		}
	}
}

// parseCPUStatV1 parses the v1 file cpu.stat of the cpu controller: throttled_time
// in nanoseconds.
func parseCPUStatV1(b []byte, r *rt.JobReading) {
	for len(b) > 0 {
		key, v, ok, rest := procfile.Pair(b)
		b = rest
		if ok && string(key) == "throttled_time" {
			r.CPUThrottled.Set(v / 1000)
		}
	}
}

// parseCPUAcctStat parses the v1 file cpuacct.stat: user and system time in USER_HZ.
func parseCPUAcctStat(b []byte, r *rt.JobReading) {
	const microsPerTick = 1_000_000 / rt.TicksPerSecond
	for len(b) > 0 {
		key, v, ok, rest := procfile.Pair(b)
		b = rest
		if !ok || v > math.MaxUint64/microsPerTick {
			continue
		}
		switch string(key) {
		case "user":
			r.CPUUser.Set(v * microsPerTick)
		case "system":
			r.CPUSystem.Set(v * microsPerTick)
		}
	}
}

// halves adds two values, neither of which is of use alone.
type halves struct {
	sum  uint64
	seen int
}

func (h *halves) add(v uint64) { h.sum += v; h.seen++ }

func (h *halves) store(o *rt.Opt[uint64]) {
	if h.seen == 2 {
		o.Set(h.sum)
	}
}

// parseMemoryStat parses the v2 file memory.stat: bytes, and counts of faults.
func parseMemoryStat(b []byte, r *rt.JobReading) {
	var active, inactive halves
	for len(b) > 0 {
		key, v, ok, rest := procfile.Pair(b)
		b = rest
		if !ok {
			continue
		}
		switch string(key) {
		case "anon":
			r.Anon.Set(v)
		case "file":
			r.File.Set(v)
		case "kernel":
			r.Kernel.Set(v)
		case "shmem":
			r.Shmem.Set(v)
		case "slab_reclaimable":
			r.SlabReclaimable.Set(v)
		case "active_anon", "active_file":
			active.add(v)
		case "inactive_anon", "inactive_file":
			inactive.add(v)
		case "pgfault":
			r.PageFaults.Set(v)
		case "pgmajfault":
			r.MajorFaults.Set(v)
		}
	}
	active.store(&r.Active)
	inactive.store(&r.Inactive)
}

// parseMemoryStatV1 parses the v1 file memory.stat. Its total_ lines count for the whole
// tree: bytes, and counts of faults.
func parseMemoryStatV1(b []byte, r *rt.JobReading) {
	var active, inactive halves
	for len(b) > 0 {
		key, v, ok, rest := procfile.Pair(b)
		b = rest
		if !ok {
			continue
		}
		switch string(key) {
		case "total_rss":
			r.Anon.Set(v)
		case "total_cache":
			r.File.Set(v)
		case "total_shmem":
			r.Shmem.Set(v)
		case "total_swap":
			r.Swap.Set(v)
		case "total_active_anon", "total_active_file":
			active.add(v)
		case "total_inactive_anon", "total_inactive_file":
			inactive.add(v)
		case "total_pgfault":
			r.PageFaults.Set(v)
		case "total_pgmajfault":
			r.MajorFaults.Set(v)
		case "hierarchical_memory_limit":
			if v >= unlimitedV1 {
				v = rt.Unlimited
			}
			r.MemLimit.Set(v)
		}
	}
	active.store(&r.Active)
	inactive.store(&r.Inactive)
}

// parseMemoryEvents parses the v2 file memory.events, which counts for the whole tree.
func parseMemoryEvents(b []byte, r *rt.JobReading) {
	for len(b) > 0 {
		key, v, ok, rest := procfile.Pair(b)
		b = rest
		if !ok {
			continue
		}
		switch string(key) {
		case "high":
			r.EventsHigh.Set(v)
		case "max":
			r.EventsMax.Set(v)
		case "oom":
			r.EventsOOM.Set(v)
		case "oom_kill":
			r.EventsOOMKill.Set(v)
		}
	}
}

// ParseKey returns the value of the line "key value": oom_kill of the v1 file
// memory.oom_control (Linux 4.13), populated of the v2 file cgroup.events.
func ParseKey(b []byte, key string) (uint64, bool) {
	for len(b) > 0 {
		k, v, ok, rest := procfile.Pair(b)
		if ok && string(k) == key {
			return v, true
		}
		b = rest
	}
	return 0, false
}

// parsePressure parses a PSI file. Its lines are "some avg10=0.00 avg60=0.00
// avg300=0.00 total=630180", microseconds. Before Linux 5.13 the CPU's has no line "full".
func parsePressure(b []byte, some, full *rt.Opt[uint64]) {
	for len(b) > 0 {
		var line []byte
		line, b = procfile.Line(b)
		kind, rest := procfile.Field(line)
		_, value, found := bytes.Cut(rest, total)
		n, ok := parseNumber(value)
		if !found || !ok {
			continue
		}
		switch string(kind) {
		case "some":
			some.Set(n)
		case "full":
			full.Set(n)
		}
	}
}

var total = []byte("total=")

// parseRDMA sums rdma.current over the devices: "mlx5_0 hca_handle=2 hca_object=2000".
// The file is empty if there is no device.
func parseRDMA(b []byte, handles, objects *rt.Opt[uint64]) {
	for len(b) > 0 {
		var line []byte
		line, b = procfile.Line(b)
		_, rest := procfile.Field(line)
		for len(rest) > 0 {
			var field []byte
			field, rest = procfile.Field(rest)
			key, value, _ := bytes.Cut(field, equals)
			n, ok := procfile.Uint(value)
			if !ok {
				continue
			}
			switch string(key) {
			case "hca_handle":
				Add(handles, rt.Some(n))
			case "hca_object":
				Add(objects, rt.Some(n))
			}
		}
	}
}
