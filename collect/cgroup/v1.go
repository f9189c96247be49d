package cgroup

import (
	"errors"
	"path/filepath"

	"github.com/resource-tracker/rt"
)

// v1Reader reads the job's directories of the v1 hierarchies. The counters named
// total_ and those of cpuacct hold for everything below a directory, what was
// removed included; memory.failcnt and oom_kill do not, see tree.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/
type v1Reader struct {
	usage       file // cpuacct.usage, nanoseconds
	usageUser   file // cpuacct.usage_user, nanoseconds, Linux 4.6
	usageSys    file // cpuacct.usage_sys, nanoseconds, Linux 4.6
	acctStat    file // cpuacct.stat, USER_HZ, for older kernels
	cpuStat     file // cpu.stat: throttled_time, nanoseconds, of this directory alone
	memoryUsage file // memory.usage_in_bytes, page cache included
	memoryPeak  file // memory.max_usage_in_bytes
	memoryStat  file
	pids        file // pids.current
	blkio       file // blkio.throttle.io_service_bytes_recursive

	skip majors
	part bool // of a step or task: what a StepReading has not is not read
}

type v1File struct {
	controller, name string
	f                *file
}

func (v *v1Reader) files() []v1File {
	all := [...]v1File{
		{"cpuacct", "cpuacct.usage", &v.usage},
		{"cpuacct", "cpuacct.usage_user", &v.usageUser},
		{"cpuacct", "cpuacct.usage_sys", &v.usageSys},
		{"cpuacct", "cpuacct.stat", &v.acctStat},
		{"memory", "memory.usage_in_bytes", &v.memoryUsage},
		{"memory", "memory.max_usage_in_bytes", &v.memoryPeak},
		{"memory", "memory.stat", &v.memoryStat},
		{"blkio", "blkio.throttle.io_service_bytes_recursive", &v.blkio},
		{"cpu", "cpu.stat", &v.cpuStat},
		{"pids", "pids.current", &v.pids},
	}
	if v.part {
		return all[:len(all)-2]
	}
	return all[:]
}

func (v *v1Reader) open(controller, dir string) error {
	var errs []error
	for _, f := range v.files() {
		if f.controller == controller && !f.f.open {
			errs = append(errs, f.f.tryOpen(filepath.Join(dir, f.name)))
		}
	}
	return errors.Join(errs...)
}

func (v *v1Reader) drop(controller string) {
	for _, f := range v.files() {
		if f.controller == controller {
			f.f.close()
			*f.f = file{}
		}
	}
}

func (v *v1Reader) close() {
	for _, f := range v.files() {
		f.f.close()
	}
}

func (v *v1Reader) enter(_, _ string, _ *scratch) (watch string, err error) { return "", nil }
func (v *v1Reader) leave(string)                                            {}
func (v *v1Reader) miss()                                                   {}

func (v *v1Reader) read(r *rt.JobReading, s *scratch) {
	v.readCPU(r, s)
	if n, ok := s.number(&v.memoryUsage); ok {
		r.MemCurrent.Set(n)
	}
	if n, ok := s.number(&v.memoryPeak); ok {
		r.MemPeak.Set(n)
	}
	if b, ok := s.read(&v.memoryStat); ok {
		parseMemoryStatV1(b, r)
	}
	if n, ok := s.number(&v.pids); ok {
		r.Threads.Set(n)
	}
	if b, ok := s.read(&v.blkio); ok {
		read, write := parseBlkio(b, v.skip)
		r.IOReadBytes.Set(read)
		r.IOWriteBytes.Set(write)
	}
}

func (v *v1Reader) readCPU(r *rt.JobReading, s *scratch) {
	if n, ok := s.number(&v.usage); ok {
		r.CPUUsage.Set(n / 1000)
	}
	if n, ok := s.number(&v.usageUser); ok {
		r.CPUUser.Set(n / 1000)
	}
	if n, ok := s.number(&v.usageSys); ok {
		r.CPUSystem.Set(n / 1000)
	}
	if !r.CPUUser.Valid() || !r.CPUSystem.Valid() {
		if b, ok := s.read(&v.acctStat); ok {
			parseCPUAcctStat(b, r)
		}
	}
	if b, ok := s.read(&v.cpuStat); ok {
		parseCPUStatV1(b, r)
	}
}
