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

	Fail, OOMKill rt.Opt[uint64] // how often the limit was reached, processes killed: as last read
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

// minPage is the minimum length of a part of a list that another part may follow. The kernel
// returns a page at a time, without an entry that does not fit.
const minPage = 2048

// ListProcs counts the processes of the directory and, unless dst is nil, appends their pids to
// dst. It is false if nothing could be read.
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
	var list pidList
	b := buf.Bytes()
	for off := int64(0); ; {
		n, err := d.procs.Pread(b, off)
		if errors.Is(err, unix.ENODEV) {
			d.procs.Retire()
		}
		n = max(n, 0)
		ok = ok || err == nil
		list.add(b[:n], dst)
		off += int64(n)
		isLast := n < minPage && len(b) > minPage
		if n == 0 || isLast {
			break
		}
	}
	list.end(dst)
	return list.Count, ok
}

// pidList parses cgroup.procs as it comes in pieces, which may end within a number. The
// zero value is ready to use.
type pidList struct {
	Count  int // processes so far
	n      int
	within bool
}

// appendPIDs appends the pids in a file cgroup.procs to dst: none if it was removed.
func appendPIDs(dst []int, path string) []int {
	text, _ := os.ReadFile(path)
	var list pidList
	list.add(text, &dst)
	list.end(&dst)
	return dst
}

// add parses the next piece.
func (l *pidList) add(b []byte, dst *[]int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			l.end(dst)
			continue
		}
		l.within = true
		if l.n < 1<<30 {
			l.n = l.n*10 + int(c-'0')
		}
	}
}

// end says that no piece follows. A pid of 0, which is how v1 lists a process of another
// pid namespace, is counted but not listed.
func (l *pidList) end(dst *[]int) {
	if !l.within {
		return
	}
	l.Count++
	if dst != nil && l.n > 0 {
		*dst = append(*dst, l.n)
	}
	l.n, l.within = 0, false
}
