package proc

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const (
	// freqPause is the time between two readings of the frequencies: a file for each
	// CPU, several microseconds each.
	freqPause = 10 * time.Second
	// freqTime is how long one reading may take. Linux 4.x on x86 measures, and sleeps
	// 10 ms, for every CPU: there nobody asks again for freqAgain. Once or twice it is
	// the tracker that had no CPU meanwhile, on a node that is busy.
	freqTime  = 50 * time.Millisecond
	freqLate  = 3 // readings in a row
	freqAgain = time.Hour
)

// CPUFreq reads the frequencies at which the CPUs run:
// /sys/devices/system/cpu/cpu<N>/cpufreq/scaling_cur_freq
// (Documentation/admin-guide/pm/cpufreq.rst). Virtual machines have none.
type CPUFreq struct {
	dir  string
	peek peek
	next int64 // Boot of the next reading
	now  func() time.Time
	slow error
	late int // readings in a row that took too long
	absence
}

// NewCPUFreq returns the source of Node.CPUFreq. It comes after CPU, of which it
// learns which CPUs are online.
func NewCPUFreq(fs FS) *CPUFreq {
	return &CPUFreq{dir: fs.Sys + "/devices/system/cpu/cpu", now: time.Now}
}

// Name is what the ledger calls the source.
func (c *CPUFreq) Name() string { return "cpu frequency" }

// Close has nothing to give back.
func (c *CPUFreq) Close() error { return nil }

// Read fills s.Node.CPUFreq, every freqPause.
func (c *CPUFreq) Read(s *rt.Snapshot) error {
	if err := c.known(); err != nil {
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
		b, err := c.peek.path(c.dir).digits(cpu).str("/cpufreq/scaling_cur_freq").read()
		if v, ok := procfile.Uint(b); err == nil && ok && v < 1<<32 {
			sum += v
			n++
		}
		if c.now().Sub(began) > freqTime {
			again := freqPause
			if c.late++; c.late >= freqLate {
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
