package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// counterFiles are the counter files of the cgroup of a job, step or task: one directory in
// v2, one in each hierarchy in v1.
type counterFiles struct {
	slurmstepdCPU // v2, of a job

	all  []file
	peak intervalPeak // v2, of a job
	huge hugePages    // v2, of a job

	usage, stat, events *file // of the memory; there are no events in v1
}

// file is one of them.
type file struct {
	controller string // v1: the hierarchy that has it; cgroupfs.Unified
	name       string
	parse      func(b []byte, r *rt.JobReading)
	isFallback bool // it is read if the files before it had no user and system time

	procfile.File
}

// newStepFiles returns the files of a step or task, which have what is in a StepReading.
func newStepFiles(version int, stacked majors) *counterFiles {
	if version == 1 {
		return newFiles(stepFilesV1(stacked))
	}
	return newFiles(stepFilesV2(stacked))
}

// newJobFiles returns the files of a job. procRoot is where proc is mounted.
func newJobFiles(version int, stacked majors, procRoot string) *counterFiles {
	if version == 1 {
		return newFiles(append(stepFilesV1(stacked), jobFilesV1()...))
	}
	f := newFiles(append(stepFilesV2(stacked), jobFilesV2()...))
	f.slurmstepdCPU = slurmstepdCPU{isOn: true, procRoot: procRoot}
	return f
}

func newFiles(all []file) *counterFiles {
	f := &counterFiles{all: all}
	for i := range all {
		switch e := &all[i]; e.name {
		case "memory.current", "memory.usage_in_bytes":
			f.usage = e
		case "memory.stat":
			f.stat = e
		case "memory.events":
			f.events = e
		}
	}
	return f
}

// Open opens the files of a controller in dir that are not open yet. A file that does
// not exist, yet or on this kernel, is no error.
func (f *counterFiles) Open(controller, dir string) error {
	var errs []error
	for i := range f.all {
		if e := &f.all[i]; e.controller == controller {
			errs = append(errs, openFile(&e.File, filepath.Join(dir, e.name)))
		}
	}
	if f.isOn {
		f.peak.open(dir)
		errs = append(errs, f.huge.open(dir))
	}
	return errors.Join(errs...)
}

// Drop closes the files of a controller after its directory was removed. They can be
// opened again in another directory.
func (f *counterFiles) Drop(controller string) {
	for i := range f.all {
		if e := &f.all[i]; e.controller == controller {
			e.Retire()
			e.File = procfile.File{}
		}
	}
	f.closeJob()
	f.peak, f.huge = intervalPeak{}, nil
	f.slurmstepdCPU = slurmstepdCPU{isOn: f.isOn, procRoot: f.procRoot}
}

// Close closes all files for good.
func (f *counterFiles) Close() {
	for i := range f.all {
		f.all[i].Retire()
	}
	f.closeJob()
}

// closeJob closes what only a job of v2 has.
func (f *counterFiles) closeJob() {
	f.close()
	f.peak.file.Retire()
	f.huge.close()
}

// Read sets the figures of the open files in r.
func (f *counterFiles) Read(r *rt.JobReading, buf *procfile.Buffer) {
	for i := range f.all {
		f.readFile(&f.all[i], r, buf)
	}
	f.leaveOutThreads(r, buf)
	f.huge.read(r, buf)
	f.peak.readInto(r, buf)
}

func (f *counterFiles) readFile(e *file, r *rt.JobReading, buf *procfile.Buffer) {
	if e.isFallback && r.CPUUser.Valid() && r.CPUSystem.Valid() {
		return
	}
	b, ok := readFile(&e.File, buf)
	if !ok {
		return
	}
	e.parse(b, r)
	if e.name == cpuStat { // the steps are read right after the total
		f.split(r, &e.File, buf)
	}
}

// EnterJob reads the job's CPU time of v2 before its steps are listed. The part of
// this time that no listed step explains was used by steps that had been removed before.
func (f *counterFiles) EnterJob(dir string, buf *procfile.Buffer) error {
	if !f.isOn {
		return nil
	}
	cpu := &f.all[0]
	err := openFile(&cpu.File, filepath.Join(dir, cpu.name))
	f.before, _ = readCPUTime(&cpu.File, buf)
	return err
}

// ReadDone begins a new interval of MemIntervalPeak for the caller of Read.
func (f *counterFiles) ReadDone() { f.peak.sinceRead = 0 }

// Written says that a reading was kept: a new interval of MemIntervalPeak begins with it.
func (f *counterFiles) Written() { f.peak.sinceWritten = f.peak.sinceRead }

// UsageFile returns the file of the memory in use, for a threshold of v1.
func (f *counterFiles) UsageFile() *procfile.File { return &f.usage.File }

// ReadMemory sets MemCurrent and what memory.stat has. It is false if the memory in use
// could not be read or is less than least, in bytes: memory.stat is not read then.
func (f *counterFiles) ReadMemory(r *rt.JobReading, least uint64, buf *procfile.Buffer) bool {
	n, ok := readNumber(&f.usage.File, buf)
	if !ok || n < least {
		return false
	}
	r.MemCurrent.Set(n)
	if b, ok := readFile(&f.stat.File, buf); ok {
		f.stat.parse(b, r)
	}
	return true
}

// ReadMemoryEvents sets what memory.events has, in v2.
func (f *counterFiles) ReadMemoryEvents(r *rt.JobReading, buf *procfile.Buffer) {
	if f.events == nil {
		return
	}
	if b, ok := readFile(&f.events.File, buf); ok {
		f.events.parse(b, r)
	}
}

// openFile opens a file. A file that does not exist is no error.
func openFile(f *procfile.File, path string) error {
	err := f.Open(path)
	isMissing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
	if err == nil || isMissing {
		return nil
	}
	return fmt.Errorf("%w; reading a job's cgroup requires root or CAP_DAC_READ_SEARCH", err)
}

// readFile returns what a file holds, until the next use of buf. If the directory was removed
// (ENODEV), the file is closed for good.
func readFile(f *procfile.File, buf *procfile.Buffer) ([]byte, bool) {
	if !f.IsOpen() {
		return nil, false
	}
	b, err := buf.Read(f)
	if errors.Is(err, unix.ENODEV) {
		f.Retire()
	}
	return b, err == nil
}

// readNumber reads a file that holds one number.
func readNumber(f *procfile.File, buf *procfile.Buffer) (uint64, bool) {
	b, _ := readFile(f, buf)
	return parseNumber(b)
}

// readKey reads the value of the line "key value" of a file.
func readKey(f *procfile.File, buf *procfile.Buffer, key string) (uint64, bool) {
	b, _ := readFile(f, buf)
	return parseKey(b, key)
}

func parseNumber(b []byte) (uint64, bool) { return procfile.Uint(procfile.Trim(b)) }
