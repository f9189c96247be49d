package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// group is a set of events that one CPU counts at the same time. Its first descriptor is
// the leader: one read(2) of it returns all values.
type group struct {
	fds      []int
	hardware bool // it uses counters of the CPU
	readings []rt.PerfReading
	buf      []byte

	enabled, running uint64 // nanoseconds, at the last reading
}

const readFormat = unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING

// openOn is openGroups for several CPUs. After an error it returns the groups of the CPUs
// before.
func openOn(name string, events []Event, cgroup int, on []cpu) ([]group, error) {
	var out []group
	for _, c := range on {
		opened, err := openGroups(name, events, cgroup, c)
		if err != nil {
			return out, err
		}
		out = append(out, opened...)
	}
	return out, nil
}

// openGroups opens events on one CPU for the processes of a cgroup, or with cgroup -1 for
// all processes. If the CPU has too few counters, it opens several groups.
func openGroups(name string, events []Event, cgroup int, on cpu) (_ []group, err error) {
	var out []group
	defer func() {
		if err != nil {
			closeAll(out)
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
		isOfCPU := name == GroupCore || name == GroupNode
		isHardware := isOfCPU && e.Type != unix.PERF_TYPE_SOFTWARE
		g.hardware = g.hardware || isHardware
		g.readings = append(g.readings, rt.PerfReading{Group: name, Socket: uint64(on.socket), CPU: uint64(on.number), Event: e.Name})
	}
	for i := range out {
		out[i].buf = make([]byte, 8*(3+len(out[i].fds)))
	}
	return out, nil
}

// open calls perf_event_open(2).
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

// read reads the counters of the group; after an error the readings are absent. enabled
// and running are the times since the last reading, in nanoseconds, during which the group
// was enabled and was on the CPU's counters.
func (g *group) read() (enabled, running uint64, err error) {
	n, err := unix.Read(g.fds[0], g.buf)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(g.fds[0], g.buf)
	}
	if err == nil && n != len(g.buf) {
		err = io.ErrUnexpectedEOF // only a pinned group in error state returns nothing; ours are not pinned
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

// alternates reports whether the next group uses the same counters of the same CPU.
func (g *group) alternates(next *group) bool {
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

// enable starts or stops counting; a stopped group uses no counter.
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

func closeAll(groups []group) {
	for i := range groups {
		groups[i].close()
	}
}

// cpu is a logical CPU and its socket.
type cpu struct{ number, socket int }

// cpus lists the CPUs of a mask, or all online CPUs.
func cpus(sys, mask string) ([]cpu, error) {
	path := filepath.Join(sys, "devices/system/cpu/online")
	if m := filepath.Join(sys, mask); mask != "" && exists(m) {
		path = m
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &StatusError{Failed, fmt.Errorf("list the CPUs: %w", err)}
	}
	numbers, ok := procfile.CPUs(strings.TrimSpace(string(text)))
	if !ok || len(numbers) == 0 {
		return nil, &StatusError{Failed, fmt.Errorf("%s: %q is not a list of CPUs", path, text)}
	}
	var out []cpu
	for _, n := range numbers {
		c := cpu{number: n}
		text := procfile.Text(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/physical_package_id", n))
		if socket, err := strconv.Atoi(text); err == nil && socket >= 0 {
			c.socket = socket // 0 on a machine without sockets
		}
		out = append(out, c)
	}
	return out, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
