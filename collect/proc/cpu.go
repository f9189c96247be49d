package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

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
	for l := range procfile.Lines(b) {
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

const (
	// freqPause is the time between two readings of the frequencies: one file for each CPU
	// costs several microseconds.
	freqPause = 10 * time.Second
	// freqTime limits one reading: Linux 4.x on x86 measures every CPU and sleeps 10 ms for
	// each. After freqLate slow readings in a row, the next one is freqAgain later. One slow
	// reading is not enough, because on a busy node the tracker may have had no CPU.
	freqTime  = 50 * time.Millisecond
	freqLate  = 3
	freqAgain = time.Hour
)

// CPUFreq reads the frequencies at which the CPUs run:
// /sys/devices/system/cpu/cpu<N>/cpufreq/scaling_cur_freq
// (Documentation/admin-guide/pm/cpufreq.rst). Virtual machines have none.
type CPUFreq struct {
	named
	dir  string
	peek peek
	next int64 // boot time of the next reading
	now  func() time.Time
	last error // result of the last attempt; Read returns it until the next attempt
	late int   // consecutive readings that took too long
}

// NewCPUFreq returns the source of Node.CPUFreq, kHz. It is read after CPU, which lists
// the online CPUs.
func NewCPUFreq(fs FS) *CPUFreq {
	return &CPUFreq{named: "cpu frequency", dir: fs.Sys + "/devices/system/cpu/cpu", now: time.Now}
}

// Close does nothing: no file is held open.
func (c *CPUFreq) Close() error { return nil }

// Read fills s.Node.CPUFreq, every freqPause.
func (c *CPUFreq) Read(s *rt.Snapshot) error {
	if s.Boot < c.next || len(s.CPUs) == 0 {
		return c.last
	}
	c.next, c.last = s.Boot+int64(freqPause), nil
	began := c.now()
	var sum, n uint64
	for i := range s.CPUs {
		cpu := s.CPUs[i].CPU
		v, ok := c.peek.path(c.dir).digits(cpu).str("/cpufreq/scaling_cur_freq").uint()
		if ok && v < 1<<32 {
			sum += v
			n++
		}
		if c.now().Sub(began) > freqTime {
			again := freqPause
			c.late++
			if c.late >= freqLate {
				again = freqAgain
			}
			c.next = s.Boot + int64(again)
			c.last = fmt.Errorf("the frequencies of %d CPUs took more than %s; the next try is in %s", i+1, freqTime, again)
			return c.last
		}
	}
	c.late = 0
	if n == 0 {
		c.last = &fs.PathError{Op: "read", Path: c.dir + "*/cpufreq/scaling_cur_freq", Err: fs.ErrNotExist}
		return c.last
	}
	s.Node.CPUFreq.Set((sum + n/2) / n)
	return nil
}
