package cgroup

import (
	"bytes"
	"math"

	"github.com/resource-tracker/rt"
)

// unlimitedV1 is where v1 limits end: "no limit" is the largest multiple of the
// page size below 2^63 there.
const unlimitedV1 = 1 << 62

// parseUint parses a decimal number with nothing but a newline or spaces behind it.
func parseUint(b []byte) (uint64, bool) {
	b = bytes.TrimRight(b, " \n")
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// parseLimit parses memory.max: a number of bytes or "max".
func parseLimit(b []byte) (uint64, bool) {
	if string(bytes.TrimRight(b, " \n")) == "max" {
		return rt.Unlimited, true
	}
	return parseUint(b)
}

// cutLine takes the first line off b.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// cutField takes the first word off a line.
func cutField(line []byte) (field, rest []byte) {
	line = bytes.TrimLeft(line, " ")
	if i := bytes.IndexByte(line, ' '); i >= 0 {
		return line[:i], line[i+1:]
	}
	return line, nil
}

// cutPair takes the first line "key value" off b. A line of another form, and one
// whose value is no number, comes back as ok false.
func cutPair(b []byte) (key []byte, v uint64, ok bool, rest []byte) {
	line, rest := cutLine(b)
	key, value := cutField(line)
	v, ok = parseUint(value)
	return key, v, ok, rest
}

// parseCPUStat parses the v2 file cpu.stat, microseconds; throttled_usec is there
// with the cpu controller alone.
func parseCPUStat(b []byte, r *rt.JobReading) {
	for len(b) > 0 {
		var key []byte
		var v uint64
		var ok bool
		if key, v, ok, b = cutPair(b); !ok {
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
		var key []byte
		var v uint64
		var ok bool
		if key, v, ok, b = cutPair(b); ok && string(key) == "throttled_time" {
			r.CPUThrottled.Set(v / 1000)
		}
	}
}

// parseCPUAcctStat parses the v1 file cpuacct.stat: user and system time in USER_HZ.
func parseCPUAcctStat(b []byte, r *rt.JobReading) {
	const microsPerTick = 1_000_000 / rt.TicksPerSecond
	for len(b) > 0 {
		var key []byte
		var v uint64
		var ok bool
		if key, v, ok, b = cutPair(b); !ok || v > math.MaxUint64/microsPerTick {
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

// halves adds two values that are only of use together.
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
		var key []byte
		var v uint64
		var ok bool
		if key, v, ok, b = cutPair(b); !ok {
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

// parseMemoryStatV1 parses the v1 file memory.stat, of which the total_ lines hold
// for the whole tree: bytes, and counts of faults.
func parseMemoryStatV1(b []byte, r *rt.JobReading) {
	var active, inactive halves
	for len(b) > 0 {
		var key []byte
		var v uint64
		var ok bool
		if key, v, ok, b = cutPair(b); !ok {
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
		var key []byte
		var v uint64
		var ok bool
		if key, v, ok, b = cutPair(b); !ok {
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

// parseKey returns the value of one line "key value": oom_kill of the v1 file
// memory.oom_control (Linux 4.13), populated of the v2 file cgroup.events.
func parseKey(b []byte, key string) (uint64, bool) {
	for len(b) > 0 {
		var k []byte
		var v uint64
		var ok bool
		if k, v, ok, b = cutPair(b); ok && string(k) == key {
			return v, true
		}
	}
	return 0, false
}
