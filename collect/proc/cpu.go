package proc

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// NewCPU returns the source of Node.CPU, Node.CPUs and Snapshot.CPUs: /proc/stat has the
// tick counters of the node and of each online CPU.
func NewCPU(fs FS) *File {
	return &File{"cpu", file{path: fs.Proc + "/stat"}, func(b []byte, s *rt.Snapshot) error {
		total, cpus, err := parseStat(b, s.CPUs[:0])
		if err != nil {
			s.CPUs = cpus[:0]
			return err
		}
		s.CPUs = cpus
		s.Node.CPU.Set(total)
		s.Node.CPUs.Set(uint64(len(cpus)))
		return nil
	}}
}

// parseStat parses the cpu lines at the beginning of /proc/stat and appends the CPUs,
// which the kernel lists in ascending order, to cpus.
func parseStat(b []byte, cpus []rt.CPUReading) (rt.CPUTimes, []rt.CPUReading, error) {
	var total rt.CPUTimes
	var seen bool
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		if !bytes.HasPrefix(l, []byte("cpu")) {
			break
		}
		name, rest := procfile.Field(l)
		times, ok := parseTimes(rest)
		if !ok {
			return total, cpus, fmt.Errorf("the line %q does not have the eight counters of a CPU", l)
		}
		if len(name) == len("cpu") {
			total, seen = times, true
			continue
		}
		n, ok := procfile.Uint(name[len("cpu"):])
		isAscending := len(cpus) == 0 || cpus[len(cpus)-1].CPU < int(n)
		if !ok || n > 1<<20 || !isAscending {
			return total, cpus, fmt.Errorf("%q is not the next CPU", name)
		}
		cpus = append(cpus, rt.CPUReading{CPU: int(n), Times: times})
	}
	if !seen || len(cpus) == 0 {
		return total, cpus, errors.New("no line of the node's CPUs")
	}
	return total, cpus, nil
}

func parseTimes(b []byte) (rt.CPUTimes, bool) {
	var v [8]uint64
	if _, ok := procfile.Uints(b, v[:]); !ok {
		return rt.CPUTimes{}, false
	}
	return rt.CPUTimes{
		User: v[0], Nice: v[1], System: v[2], Idle: v[3], IOWait: v[4], IRQ: v[5], SoftIRQ: v[6], Steal: v[7],
	}, true
}
