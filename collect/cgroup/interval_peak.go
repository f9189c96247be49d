package cgroup

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// intervalPeak is memory.peak on a descriptor of its own: a write to it begins a new
// peak for this descriptor alone. Linux 6.12.
type intervalPeak struct {
	file                    procfile.File
	sinceWritten, sinceRead uint64 // highest peak since the last reading that was kept, and since the last one
}

// open opens memory.peak for writing. If the kernel refuses that, because it is older or the user
// is not root, there is no such figure. A memory.peak outside a cgroup file system is a copy, and
// open leaves it unchanged.
func (p *intervalPeak) open(dir string) {
	if p.file.IsOpen() || p.file.Retired() {
		return
	}
	name := filepath.Join(dir, "memory.peak")
	var fs unix.Statfs_t
	if err := unix.Statfs(name, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return
	}
	if err := p.file.OpenBytes(append([]byte(name), 0), unix.O_RDWR); err != nil {
		return
	}
	if !p.reset() {
		p.file.Retire()
	}
}

func (p *intervalPeak) reset() bool {
	_, err := unix.Pwrite(p.file.Fd(), resetPeak, 0)
	return err == nil
}

var resetPeak = []byte{'1'}

// readInto reads the peak since the last call and begins a new one.
func (p *intervalPeak) readInto(r *rt.JobReading, buf *procfile.Buffer) {
	n, ok := readNumber(&p.file, buf)
	if !ok {
		return
	}
	p.reset()
	p.sinceWritten, p.sinceRead = max(p.sinceWritten, n), max(p.sinceRead, n)
	r.MemIntervalPeak.Set(p.sinceWritten)
}

// hugePages are the files hugetlb.<size>.current, in bytes.
type hugePages []procfile.File

func (h *hugePages) open(dir string) error {
	if len(*h) > 0 {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(dir, "hugetlb.*[0-9][KMG]B.current")) // the pattern is valid; not .rsvd
	var errs []error
	for _, name := range names {
		var f procfile.File
		errs = append(errs, openFile(&f, name))
		*h = append(*h, f)
	}
	return errors.Join(errs...)
}

func (h hugePages) read(r *rt.JobReading, buf *procfile.Buffer) {
	for i := range h {
		if n, ok := readNumber(&h[i], buf); ok {
			addFigure(&r.HugeTLB, rt.Some(n))
		}
	}
}

func (h hugePages) close() {
	for i := range h {
		h[i].Retire()
	}
}

// addFigure adds what was read to a sum, which is absent while nothing was.
func addFigure(sum *rt.Opt[uint64], v rt.Opt[uint64]) {
	if n, ok := v.Get(); ok {
		sum.Set(sum.Or(0) + n)
	}
}
