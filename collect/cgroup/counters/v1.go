package counters

import "github.com/resource-tracker/rt"

// stepFilesV1 are the files of a job, step or task in v1. Except oom_kill and
// memory.failcnt (see Directory) they count all below a directory, with what was
// removed.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/
func stepFilesV1(stacked Majors) []file {
	return []file{
		{controller: "cpuacct", name: "cpuacct.usage", parse: nanoseconds(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUUsage })},
		{controller: "cpuacct", name: "cpuacct.usage_user", parse: nanoseconds(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUUser })},  // Linux 4.6
		{controller: "cpuacct", name: "cpuacct.usage_sys", parse: nanoseconds(func(r *rt.JobReading) *rt.Opt[uint64] { return &r.CPUSystem })}, // Linux 4.6
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
func number(field func(*rt.JobReading) *rt.Opt[uint64]) func([]byte, *rt.JobReading) {
	return scaled(field, 1)
}

// nanoseconds parses a file of nanoseconds into a field of microseconds.
func nanoseconds(field func(*rt.JobReading) *rt.Opt[uint64]) func([]byte, *rt.JobReading) {
	return scaled(field, 1000)
}

func scaled(field func(*rt.JobReading) *rt.Opt[uint64], divisor uint64) func([]byte, *rt.JobReading) {
	return func(b []byte, r *rt.JobReading) {
		if n, ok := parseNumber(b); ok {
			field(r).Set(n / divisor)
		}
	}
}
