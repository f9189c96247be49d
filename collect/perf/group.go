package perf

import (
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// group is some events that one CPU counts together. Its first descriptor is the
// leader, whose read(2) has all.
type group struct {
	fds      []int
	hardware bool // it takes counters of the CPU
	readings []rt.PerfReading
	buf      []byte

	enabled, running uint64 // when they were last read
}

const readFormat = unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING

// cpu is a logical CPU and where it is.
type cpu struct{ number, socket int }

// openGroups opens events on one CPU, of a cgroup's processes, or with cgroup -1 of
// all: in one group, or where the CPU has too few counters for all of them, in more.
func openGroups(name string, events []Event, cgroup int, on cpu) (_ []group, err error) {
	var out []group
	defer func() {
		if err != nil {
			for i := range out {
				out[i].close()
			}
		}
	}()
	for _, e := range events {
		fd := -1
		if n := len(out); n > 0 {
			fd, err = open(e, cgroup, on.number, out[n-1].fds[0])
		}
		if len(out) == 0 || errors.Is(err, unix.EINVAL) {
			fd, err = open(e, cgroup, on.number, -1)
			if err == nil {
				out = append(out, group{})
			}
		}
		if err != nil {
			return nil, openError(e.Name, on.number, err)
		}
		g := &out[len(out)-1]
		g.fds = append(g.fds, fd)
		g.hardware = g.hardware || e.Type != unix.PERF_TYPE_SOFTWARE && (name == GroupCore || name == GroupNode)
		g.readings = append(g.readings, rt.PerfReading{Group: name, Socket: uint64(on.socket), CPU: uint64(on.number), Event: e.Name})
	}
	for i := range out {
		out[i].buf = make([]byte, 8*(3+len(out[i].fds)))
	}
	return out, nil
}

// open is perf_event_open(2).
func open(e Event, cgroup, cpu, leader int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: e.Type, Size: unix.PERF_ATTR_SIZE_VER5, Config: e.Config, Ext1: e.Config1, Ext2: e.Config2, Read_format: readFormat,
	}
	flags := unix.PERF_FLAG_FD_CLOEXEC
	if cgroup >= 0 {
		flags |= unix.PERF_FLAG_PID_CGROUP
	}
	return unix.PerfEventOpen(&attr, cgroup, cpu, leader, flags)
}

// read takes what the group has counted; the readings are absent where it fails.
// running is by how much less than enabled it ran since the last time.
func (g *group) read() (enabled, running uint64, err error) {
	n, err := unix.Read(g.fds[0], g.buf)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(g.fds[0], g.buf)
	}
	if err == nil && n != len(g.buf) {
		err = io.ErrUnexpectedEOF // a pinned group in error gives nothing; ours are not pinned
	}
	if err != nil {
		g.clear()
		return 0, 0, err
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(g.buf[8*i:]) }
	e, r := word(1), word(2)
	for i := range g.readings {
		g.readings[i].Value.Set(word(3 + i))
		g.readings[i].TimeEnabled.Set(e)
		g.readings[i].TimeRunning.Set(r)
	}
	enabled, running = e-g.enabled, r-g.running
	g.enabled, g.running = e, r
	return enabled, running, nil
}

// takesTurns says whether the next group wants the same counters of the same CPU.
func (g *group) takesTurns(next *group) bool {
	a, b := &g.readings[0], &next.readings[0]
	return g.hardware && a.CPU == b.CPU && a.Group == b.Group
}

func (g *group) clear() {
	for i := range g.readings {
		g.readings[i].Value.Clear()
		g.readings[i].TimeEnabled.Clear()
		g.readings[i].TimeRunning.Clear()
	}
}

// enable lets the group count, or gives the counters to others.
func (g *group) enable(on bool) error {
	request := unix.PERF_EVENT_IOC_DISABLE
	if on {
		request = unix.PERF_EVENT_IOC_ENABLE
	}
	return unix.IoctlSetInt(g.fds[0], uint(request), unix.PERF_IOC_FLAG_GROUP)
}

func (g *group) close() {
	for _, fd := range g.fds {
		_ = unix.Close(fd) // nothing can be lost
	}
	g.fds = nil
}
