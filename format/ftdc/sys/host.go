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

// Net is a Statser of the network interfaces of the machine.
type Net struct{ fs FS }

// NewNet returns a Statser of the interfaces.
func NewNet(fs FS) *Net { return &Net{fs} }

// NetStats has the counters of the interfaces. A new or removed interface changes the schema.
type NetStats struct {
	Interfaces map[string]InterfaceStats // by name, "lo" too
	TCPSockets *float64                  // in use, /proc/net/sockstat
	UDPSockets *float64
	OpenOrphan *float64 // TCP sockets without a process
}

// InterfaceStats has the counters of one interface since it came up, /proc/net/dev.
type InterfaceStats struct {
	RxBytes, RxPackets, RxErrors, RxDropped *float64
	TxBytes, TxPackets, TxErrors, TxDropped *float64
}

// Stats returns NetStats.
func (n *Net) Stats() any {
	s := NetStats{Interfaces: map[string]InterfaceStats{}}
	for line := range bytes.Lines(n.fs.read("net", "dev")) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		f := bytes.Fields(rest)
		if !ok || len(f) < 16 {
			continue // the two header lines
		}
		s.Interfaces[string(bytes.TrimSpace(name))] = InterfaceStats{
			RxBytes: number(f, 0, 1), RxPackets: number(f, 1, 1), RxErrors: number(f, 2, 1), RxDropped: number(f, 3, 1),
			TxBytes: number(f, 8, 1), TxPackets: number(f, 9, 1), TxErrors: number(f, 10, 1), TxDropped: number(f, 11, 1),
		}
	}
	sockets := table(n.fs.read("net", "sockstat")) // TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1
	s.TCPSockets, s.OpenOrphan = number(sockets["TCP"], 1, 1), number(sockets["TCP"], 3, 1)
	s.UDPSockets = number(sockets["UDP"], 1, 1)
	return s
}
