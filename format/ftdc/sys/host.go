package sys

import "bytes"

// Host is a Statser of the processors and the memory of the machine.
type Host struct{ fs FS }

// NewHost returns a Statser of the machine.
func NewHost(fs FS) *Host { return &Host{fs} }

// HostStats has the figures of the machine. Absent ones could not be read.
type HostStats struct {
	// Seconds of all CPUs together since boot, /proc/stat.
	UserCPUSecs, SystemCPUSecs, IdleCPUSecs, IOWaitCPUSecs, StealCPUSecs *float64
	Load1, Load5, Load15                                                 *float64 // /proc/loadavg
	// 10^6 bytes, /proc/meminfo.
	MemTotalMB, MemFreeMB, MemAvailableMB, SwapFreeMB *float64
	// Microseconds in which at least one task waited, total= of /proc/pressure.
	CPUStallUsec, MemoryStallUsec, IOStallUsec *float64
}

// Stats returns HostStats.
func (h *Host) Stats() any {
	var s HostStats
	cpu, _, _ := bytes.Cut(h.fs.read("stat"), []byte("\n"))
	f := bytes.Fields(cpu)
	if len(f) > 0 && string(f[0]) == "cpu" {
		s.UserCPUSecs = sum(number(f, 1, ticksPerSecond), number(f, 2, ticksPerSecond))
		s.SystemCPUSecs = number(f, 3, ticksPerSecond)
		s.IdleCPUSecs = number(f, 4, ticksPerSecond)
		s.IOWaitCPUSecs = number(f, 5, ticksPerSecond)
		s.StealCPUSecs = number(f, 8, ticksPerSecond)
	}
	load := bytes.Fields(h.fs.read("loadavg"))
	s.Load1, s.Load5, s.Load15 = number(load, 0, 1), number(load, 1, 1), number(load, 2, 1)
	mem := table(h.fs.read("meminfo"))
	const kib = 1e6 / 1024
	s.MemTotalMB, s.MemFreeMB = number(mem["MemTotal"], 0, kib), number(mem["MemFree"], 0, kib)
	s.MemAvailableMB, s.SwapFreeMB = number(mem["MemAvailable"], 0, kib), number(mem["SwapFree"], 0, kib)
	s.CPUStallUsec, s.MemoryStallUsec, s.IOStallUsec = h.stall("cpu"), h.stall("memory"), h.stall("io")
	return s
}

func (h *Host) stall(what string) *float64 {
	line, _, _ := bytes.Cut(h.fs.read("pressure", what), []byte("\n"))
	_, total, ok := bytes.Cut(line, []byte("total="))
	if !ok || !bytes.HasPrefix(line, []byte("some ")) {
		return nil
	}
	return number([][]byte{total}, 0, 1)
}
