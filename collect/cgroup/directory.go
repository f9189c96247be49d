package cgroup

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// directoryFiles holds the files that count one directory without those below it: the list of
// its processes, and in v1 two counts of memory events. The kernel counts an event only in
// the directory of the limit that was reached, or of the process that was killed.
type directoryFiles struct {
	procs      procfile.File // cgroup.procs
	procsPath  []byte        // ends in a zero byte
	failcnt    procfile.File // memory.failcnt
	OOMControl procfile.File // memory.oom_control

	IsOOMWatched bool // an OOM is signalled, see memoryMonitor

	Fail    rt.Opt[uint64] // how often the limit was reached, as last read
	OOMKill rt.Opt[uint64] // number of killed processes, as last read
}

// Open opens the files of the directory at path that are not open yet. isMemoryV1 says
// whether it is in the hierarchy of v1's memory controller.
func (d *directoryFiles) Open(path string, isMemoryV1 bool) error {
	name := filepath.Join(path, "cgroup.procs")
	d.procsPath = append([]byte(name), 0)
	err := openFile(&d.procs, name)
	if isMemoryV1 {
		err = errors.Join(err,
			openFile(&d.failcnt, filepath.Join(path, "memory.failcnt")),
			openFile(&d.OOMControl, filepath.Join(path, "memory.oom_control")))
	}
	return err
}

// Close closes the files for good.
func (d *directoryFiles) Close() {
	d.procs.Retire()
	d.failcnt.Retire()
	d.OOMControl.Retire()
}

// ReadEvents reads Fail and OOMKill. A kill between the last reading of a directory and
// its removal is not seen.
func (d *directoryFiles) ReadEvents(buf *procfile.Buffer) {
	if n, ok := readNumber(&d.failcnt, buf); ok {
		d.Fail.Set(n)
	}
	if n, ok := readKey(&d.OOMControl, buf, "oom_kill"); ok {
		d.OOMKill.Set(n)
	}
}

// ListProcs counts the processes of the directory and, unless dst is nil, appends their pids to
// dst. ok is false if they cannot be listed.
//
// In v1 the kernel caches the list of a descriptor for a second, and each read extends that second.
// Therefore ListProcs opens the file for each list.
func (d *directoryFiles) ListProcs(version int, buf *procfile.Buffer, dst *[]int) (count int, ok bool) {
	if version == 1 && !d.procs.Retired() {
		_ = d.procs.Close() // opened for reading: nothing can be lost
		err := d.procs.OpenBytes(d.procsPath, 0)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			d.procs.Retire()
		}
	}
	text, err := buf.ReadAll(&d.procs)
	if errors.Is(err, unix.ENODEV) {
		d.procs.Retire()
	}
	return parsePIDs(text, dst), err == nil
}

// parsePIDs counts the processes in a file cgroup.procs and, unless dst is nil, appends their pids to dst. A pid of
// 0, which is how v1 lists a process of another pid namespace, is counted but not listed.
func parsePIDs(text []byte, dst *[]int) (count int) {
	for line := range procfile.Lines(text) {
		pid, ok := procfile.Uint(line)
		if !ok || pid >= 1<<31 {
			continue
		}
		count++
		if dst != nil && pid > 0 {
			*dst = append(*dst, int(pid))
		}
	}
	return count
}

// appendPIDs appends the pids in a file cgroup.procs to dst: none if it was removed.
func appendPIDs(dst []int, path string) []int {
	text, _ := os.ReadFile(path)
	parsePIDs(text, &dst)
	return dst
}
