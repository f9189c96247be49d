package cgroup

import (
	"errors"
	"path/filepath"

	"github.com/resource-tracker/rt"
)

// reader reads the counters of one job's cgroup.
type reader interface {
	// open opens what is not open yet of a controller's files in dir.
	open(controller, dir string) error
	// enter takes in a directory of the job's, the job's own first, and then leave
	// tells that it is gone. Where a file tells of processes that come and go in it,
	// enter returns its path.
	enter(job, path string, s *scratch) (watch string, err error)
	leave(path string)
	// miss tells that a step may have come and gone unseen.
	miss()
	// read fills what it can read of r.
	read(r *rt.JobReading, s *scratch)
	// drop closes a controller's files, whose directory is gone.
	drop(controller string)
}

// v2Reader reads the job's directory of the unified hierarchy. Its counters hold
// for everything below it, what was removed included.
//
// https://docs.kernel.org/admin-guide/cgroup-v2.html
type v2Reader struct {
	cpuStat       file // usage_usec, user_usec, system_usec, throttled_usec
	memoryCurrent file // bytes, page cache included
	memoryPeak    file // bytes, Linux 5.19
	memoryMax     file // bytes or "max"; Slurm sets the allocated memory here
	memorySwap    file // memory.swap.current, bytes
	memoryStat    file
	memoryEvents  file
	ioStat        file

	shares shares
	extra  *v2Extra // nil for a step or task
	skip   majors
}

// newV2Reader returns the reader of a job.
func newV2Reader(skip majors, procRoot string) *v2Reader {
	return &v2Reader{skip: skip, shares: shares{procRoot: procRoot}, extra: &v2Extra{}}
}

type v2File struct {
	name string
	f    *file
}

func (v *v2Reader) files() []v2File {
	all := [...]v2File{
		{"cpu.stat", &v.cpuStat},
		{"memory.current", &v.memoryCurrent},
		{"memory.peak", &v.memoryPeak},
		{"memory.stat", &v.memoryStat},
		{"memory.events", &v.memoryEvents},
		{"io.stat", &v.ioStat},
		{"memory.max", &v.memoryMax},
		{"memory.swap.current", &v.memorySwap},
	}
	if v.part() {
		return all[:len(all)-2]
	}
	return all[:]
}

// part says that it is a step's or task's reader: what a StepReading has not is not read.
func (v *v2Reader) part() bool { return v.extra == nil }

func (v *v2Reader) open(_, dir string) error {
	var errs []error
	for _, f := range v.files() {
		if !f.f.open {
			errs = append(errs, f.f.tryOpen(filepath.Join(dir, f.name)))
		}
	}
	if v.extra != nil {
		errs = append(errs, v.extra.open(dir))
	}
	return errors.Join(errs...)
}

func (v *v2Reader) drop(string) {
	skip, procRoot := v.skip, v.shares.procRoot
	v.close()
	*v = *newV2Reader(skip, procRoot)
}

func (v *v2Reader) close() {
	for _, f := range v.files() {
		f.f.close()
	}
	v.shares.close()
	if v.extra != nil {
		v.extra.close()
	}
}

func (v *v2Reader) enter(job, path string, s *scratch) (watch string, err error) {
	if path != job {
		return v.shares.enter(job, path)
	}
	err = v.cpuStat.tryOpen(filepath.Join(job, "cpu.stat"))
	v.shares.before, _ = s.cpuTime(&v.cpuStat)
	return "", err
}

func (v *v2Reader) leave(path string) { v.shares.leave(path) }
func (v *v2Reader) miss()             { v.shares.missed = true }

func (v *v2Reader) read(r *rt.JobReading, s *scratch) {
	if b, ok := s.read(&v.cpuStat); ok {
		parseCPUStat(b, r)
		v.shares.read(r, &v.cpuStat, s)
	}
	if n, ok := s.number(&v.memoryCurrent); ok {
		r.MemCurrent.Set(n)
	}
	if n, ok := s.number(&v.memoryPeak); ok {
		r.MemPeak.Set(n)
	}
	if b, ok := s.read(&v.memoryMax); ok {
		if n, ok := parseLimit(b); ok {
			r.MemLimit.Set(n)
		}
	}
	if n, ok := s.number(&v.memorySwap); ok {
		r.Swap.Set(n)
	}
	if b, ok := s.read(&v.memoryStat); ok {
		parseMemoryStat(b, r)
	}
	if b, ok := s.read(&v.memoryEvents); ok {
		parseMemoryEvents(b, r)
	}
	if b, ok := s.read(&v.ioStat); ok {
		read, write := parseIOStat(b, v.skip)
		r.IOReadBytes.Set(read)
		r.IOWriteBytes.Set(write)
	}
	if v.extra != nil {
		v.extra.readInto(r, s)
	}
}
