package counters

import (
	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const cpuStat = "cpu.stat"

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
