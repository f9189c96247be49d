package sys

import "bytes"

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
