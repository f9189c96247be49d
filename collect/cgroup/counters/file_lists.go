package counters

import (
	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const (
	cpuStat       = "cpu.stat"
	nanosPerMicro = 1000
)

// stepFilesV1 are the files of a job, step or task in v1. Except oom_kill and
// memory.failcnt (see Directory) they count all below a directory, with what was
// removed.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/
func stepFilesV1(stacked Majors) []file {
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

// jobFilesV1 are the files that only a job's reading has. cpu.stat counts for its own
// directory alone.
func jobFilesV1() []file {
	return []file{
		{controller: "cpu", name: "cpu.stat", parse: parseCPUStatV1},
		{controller: "pids", name: "pids.current", parse: number(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.Threads })},
	}
}

// number parses a file that holds one number.
func number(field figure) func([]byte, *rt.JobReading) { return scaled(field, 1) }

// scaled parses a file that holds one number, which is divided.
func scaled(field figure, divisor uint64) func([]byte, *rt.JobReading) {
	return func(b []byte, r *rt.JobReading) {
		if n, ok := parseNumber(b); ok {
			field(r).Set(n / divisor)
		}
	}
}

// stepFilesV2 are the files of a job, step or task in v2. They count all below a
// directory, with what was removed. cpu.stat is the first, see EnterJob.
//
// https://docs.kernel.org/admin-guide/cgroup-v2.html
func stepFilesV2(stacked Majors) []file {
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
