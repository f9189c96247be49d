package proc

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	// freqPause is the time between two readings of the frequencies: one file for each CPU
	// costs several microseconds.
	freqPause = 10 * time.Second
	// freqTime limits one reading. Linux 4.x on x86 measures for every CPU, and sleeps
	// 10 ms: the next reading is then freqAgain later. The limit applies after freqLate
	// consecutive readings, because on a busy node the tracker may have had no CPU.
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
	slow error
	late int // consecutive readings that took too long
	retryBackoff
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
	if err := c.pending(); err != nil {
		return err
	}
	if s.Boot < c.next || len(s.CPUs) == 0 {
		return c.slow
	}
	c.next, c.slow = s.Boot+int64(freqPause), nil
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
			c.slow = fmt.Errorf("the frequencies of %d CPUs took more than %s; the next try is in %s", i+1, freqTime, again)
			return c.slow
		}
	}
	c.late = 0
	if n == 0 {
		return c.note(&fs.PathError{Op: "read", Path: c.dir + "*/cpufreq/scaling_cur_freq", Err: fs.ErrNotExist})
	}
	s.Node.CPUFreq.Set((sum + n/2) / n)
	return nil
}
