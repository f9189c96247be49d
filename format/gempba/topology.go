package gempba

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// Topology has the places of the workers. It is read once, when the telemetry starts.
type Topology struct {
	Nodes      []TopologyNode `json:"nodes"`
	Identities []Identity     `json:"identities"`
}

// TopologyNode is one host. Unknown counts are 0 in lines of GemPBA.
type TopologyNode struct {
	Hostname           string         `json:"hostname"`
	SentinelWorkerID   uint32         `json:"sentinel_worker_id"`
	TotalPhysicalCores rt.Opt[uint64] `json:"total_physical_cores"`
	TotalLogicalCores  rt.Opt[uint64] `json:"total_logical_cores"`
	MemTotalBytes      rt.Opt[uint64] `json:"mem_total_bytes"`
	WorkerIDs          []uint32       `json:"worker_ids"`
	Sockets            []Socket       `json:"sockets"` // at most MaxSockets

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see absent.go
}

// Socket is one CPU package of a host.
type Socket struct {
	SocketID      uint32         `json:"socket_id"`
	Name          string         `json:"name"` // of its model
	PhysicalCores rt.Opt[uint64] `json:"physical_cores"`
	LogicalCores  rt.Opt[uint64] `json:"logical_cores"`
	CPUIDs        []uint32       `json:"cpu_ids"` // ascending

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see absent.go
}

// Identity is the process of a worker.
type Identity struct {
	WorkerID      uint32        `json:"worker_id"` // the index in the list if the line has none
	Hostname      string        `json:"hostname"`
	PID           rt.Opt[int64] `json:"pid"`
	PrimarySocket rt.Opt[int64] `json:"primary_socket"`  // socket_id of most of its allowed CPUs
	AllowedCPUs   []uint32      `json:"allowed_cpu_ids"` // ascending, from its affinity; nil if unknown

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see absent.go
}

// Identity returns a worker, or only its host if no more is known; empty if it has no place.
func (t *Topology) Identity(worker uint32) Identity {
	i := slices.IndexFunc(t.Identities, func(i Identity) bool { return i.WorkerID == worker })
	if i >= 0 {
		return t.Identities[i]
	}
	for _, n := range t.Nodes {
		if slices.Contains(n.WorkerIDs, worker) {
			return Identity{Hostname: n.Hostname}
		}
	}
	return Identity{}
}

// allowedCPUs is the name of Identity.AllowedCPUs in JSON.
const allowedCPUs = "allowed_cpu_ids"

// UnmarshalJSON implements json.Unmarshaler. An identity without a worker_id has its index in the list.
func (t *Topology) UnmarshalJSON(b []byte) error {
	err := unmarshal(b, &struct {
		Nodes      limited[TopologyNode] `json:"nodes"`
		Identities limited[Identity]     `json:"identities"`
	}{limited[TopologyNode]{&t.Nodes, MaxWorkers}, limited[Identity]{&t.Identities, MaxWorkers}})
	for n := range t.Identities {
		if i := &t.Identities[n]; i.WorkerID == noID {
			i.WorkerID = uint32(n)
		}
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *TopologyNode) UnmarshalJSON(b []byte) error {
	type plain TopologyNode
	err := unmarshal(b, &struct {
		*plain
		WorkerIDs limited[uint32] `json:"worker_ids"`
		Sockets   limited[Socket] `json:"sockets"`
	}{(*plain)(n), limited[uint32]{&n.WorkerIDs, MaxWorkers}, limited[Socket]{&n.Sockets, MaxSockets}})
	clearUnread(n, &n.Unread)
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Socket) UnmarshalJSON(b []byte) error {
	type plain Socket
	err := unmarshal(b, &struct {
		*plain
		CPUIDs limited[uint32] `json:"cpu_ids"`
	}{(*plain)(s), limited[uint32]{&s.CPUIDs, MaxCPUs}})
	clearUnread(s, &s.Unread)
	return err
}

// UnmarshalJSON takes the list of CPUs before the mask.
func (i *Identity) UnmarshalJSON(b []byte) error {
	type plain Identity
	i.WorkerID = noID
	in := struct {
		*plain
		AllowedCPUs limited[uint32] `json:"allowed_cpu_ids"`
		AllowedMask *string         `json:"allowed_cpu_mask"`
	}{plain: (*plain)(i), AllowedCPUs: limited[uint32]{&i.AllowedCPUs, MaxCPUs}}
	err := unmarshal(b, &in)
	if err == nil && i.AllowedCPUs == nil && in.AllowedMask != nil {
		i.AllowedCPUs, err = ParseMask(*in.AllowedMask)
	}
	slices.Sort(i.AllowedCPUs)
	i.AllowedCPUs = slices.Compact(i.AllowedCPUs)
	if slices.Contains(i.Unread, allowedCPUs) {
		i.AllowedCPUs = nil
	}
	clearUnread(i, &i.Unread)
	return err
}

// Mask is the bitmap of CPUs as a lower-case hexadecimal number.
func Mask(cpus []uint32) string {
	var mask big.Int
	for _, cpu := range cpus {
		mask.SetBit(&mask, int(cpu), 1)
	}
	return mask.Text(16)
}

// ParseMask reads a bitmap of CPUs: hexadecimal, also with 0x before it and with the
// commas of /proc/<pid>/status. The list is ascending and not nil.
func ParseMask(text string) ([]uint32, error) {
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(text), "0x"), ",", "")
	if digits == "" || len(digits) > MaxCPUs/4 {
		return nil, fmt.Errorf("a CPU mask of %d hexadecimal digits: %w (1 to %d)", len(digits), ErrLimit, MaxCPUs/4)
	}
	mask, isNumber := new(big.Int).SetString(digits, 16)
	if !isNumber || strings.ContainsAny(digits, "+-") {
		return nil, fmt.Errorf("the CPU mask %.64q is no hexadecimal number: %w", digits, ErrFormat)
	}
	cpus := []uint32{}
	for cpu := range mask.BitLen() {
		if mask.Bit(cpu) == 1 {
			cpus = append(cpus, uint32(cpu))
		}
	}
	return cpus, nil
}
