package cgroup

import (
	"bytes"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// v2Extra are the files that are read of the job as a whole alone. Which there are
// depends on the kernel and the controllers that the site enables.
type v2Extra struct {
	cpu, memory, io file   // cpu.pressure, memory.pressure, io.pressure: Linux with PSI
	pids            file   // pids.current
	rdma            file   // rdma.current
	huge            []file // hugetlb.<size>.current, bytes

	// peak is memory.peak on a descriptor of its own, which a write resets for
	// itself alone, Linux 6.12. written is the highest since Written was last told,
	// read the highest since the last Read.
	peak          file
	written, read uint64
}

func (x *v2Extra) open(dir string) error {
	var errs []error
	for _, f := range [...]struct {
		name string
		f    *file
	}{
		{"cpu.pressure", &x.cpu}, {"memory.pressure", &x.memory}, {"io.pressure", &x.io},
		{"pids.current", &x.pids}, {"rdma.current", &x.rdma},
	} {
		if !f.f.open {
			errs = append(errs, f.f.tryOpen(filepath.Join(dir, f.name)))
		}
	}
	if x.huge == nil {
		names, _ := filepath.Glob(filepath.Join(dir, "hugetlb.*[0-9][KMG]B.current")) // the pattern is right; not .rsvd
		for _, name := range names {
			var f file
			errs = append(errs, f.tryOpen(name))
			x.huge = append(x.huge, f)
		}
	}
	if !x.peak.open && !x.peak.dead {
		x.openPeak(filepath.Join(dir, "memory.peak"))
	}
	return errors.Join(errs...)
}

// openPeak opens memory.peak for writing. Older kernels refuse that, and whoever is
// not root may not: there is no such figure then. A copy of such a file is left alone.
func (x *v2Extra) openPeak(name string) {
	var fs unix.Statfs_t
	if err := unix.Statfs(name, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return
	}
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	x.peak = file{fd: fd, open: true}
	if !x.reset() {
		x.peak.close()
	}
}

func (x *v2Extra) reset() bool {
	_, err := unix.Pwrite(x.peak.fd, resetPeak, 0)
	return err == nil
}

var resetPeak = []byte{'1'}

func (x *v2Extra) close() {
	for _, f := range [...]*file{&x.cpu, &x.memory, &x.io, &x.pids, &x.rdma, &x.peak} {
		f.close()
	}
	for i := range x.huge {
		x.huge[i].close()
	}
}

func (x *v2Extra) readInto(r *rt.JobReading, s *scratch) {
	for _, p := range [...]struct {
		f          *file
		some, full *rt.Opt[uint64]
	}{
		{&x.cpu, &r.CPUStallSome, &r.CPUStallFull},
		{&x.memory, &r.MemStallSome, &r.MemStallFull},
		{&x.io, &r.IOStallSome, &r.IOStallFull},
	} {
		if b, ok := s.read(p.f); ok {
			parsePressure(b, p.some, p.full)
		}
	}
	if n, ok := s.number(&x.pids); ok {
		r.Threads.Set(n)
	}
	for i := range x.huge {
		if n, ok := s.number(&x.huge[i]); ok {
			addTo(&r.HugeTLB, rt.Some(n))
		}
	}
	if b, ok := s.read(&x.rdma); ok {
		parseRDMA(b, &r.RDMAHandles, &r.RDMAObjects)
	}
	x.readPeak(r, s)
}

// readPeak reads the peak since the last time and begins anew.
func (x *v2Extra) readPeak(r *rt.JobReading, s *scratch) {
	n, ok := s.number(&x.peak)
	if !ok {
		return
	}
	x.reset()
	x.written, x.read = max(x.written, n), max(x.read, n)
	r.MemIntervalPeak.Set(x.written)
}

// parsePressure parses a PSI file, whose lines are "some avg10=0.00 avg60=0.00
// avg300=0.00 total=630180", microseconds. There is no line "full" of the CPU
// before Linux 5.13.
func parsePressure(b []byte, some, full *rt.Opt[uint64]) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		kind, rest := cutField(line)
		i := bytes.Index(rest, total)
		if i < 0 {
			continue
		}
		n, ok := parseUint(rest[i+len(total):])
		if !ok {
			continue
		}
		switch string(kind) {
		case "some":
			some.Set(n)
		case "full":
			full.Set(n)
		}
	}
}

var total = []byte("total=")

// parseRDMA sums rdma.current over the devices: "mlx5_0 hca_handle=2 hca_object=2000".
// An empty file says that there is no device.
func parseRDMA(b []byte, handles, objects *rt.Opt[uint64]) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		_, rest := cutField(line)
		for len(rest) > 0 {
			var field []byte
			field, rest = cutField(rest)
			key, value, _ := bytes.Cut(field, equals)
			n, ok := parseUint(value)
			if !ok {
				continue
			}
			switch string(key) {
			case "hca_handle":
				addTo(handles, rt.Some(n))
			case "hca_object":
				addTo(objects, rt.Some(n))
			}
		}
	}
}
