package gempba

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see unread.go
}

// Socket is one CPU package of a host.
type Socket struct {
	SocketID      uint32         `json:"socket_id"`
	Name          string         `json:"name"` // of its model
	PhysicalCores rt.Opt[uint64] `json:"physical_cores"`
	LogicalCores  rt.Opt[uint64] `json:"logical_cores"`
	CPUIDs        []uint32       `json:"cpu_ids"` // ascending

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see unread.go
}

// Identity is the process of a worker.
type Identity struct {
	WorkerID      uint32        `json:"worker_id"` // the index in the list if the line has none
	Hostname      string        `json:"hostname"`
	PID           rt.Opt[int64] `json:"pid"`
	PrimarySocket rt.Opt[int64] `json:"primary_socket"`  // socket_id of most of its allowed CPUs
	AllowedCPUs   []uint32      `json:"allowed_cpu_ids"` // ascending, from its affinity; nil if unknown

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see unread.go
}

type identityJSON struct {
	Identity
	WorkerID    *uint32         `json:"worker_id"`
	AllowedIDs  json.RawMessage `json:"allowed_cpu_ids"`
	AllowedMask *string         `json:"allowed_cpu_mask"`
}

// MarshalJSON writes the CPUs as a list and as a mask.
func (i Identity) MarshalJSON() ([]byte, error) {
	type plain Identity
	return json.Marshal(struct {
		plain
		AllowedMask string `json:"allowed_cpu_mask"`
	}{plain(i), Mask(i.AllowedCPUs)})
}

// identities reads those of a topology.
func identities(raw json.RawMessage) ([]Identity, error) {
	list, err := listOf[identityJSON](raw, MaxWorkers, "identities")
	if err != nil {
		return nil, err
	}
	out := make([]Identity, len(list))
	for n, in := range list {
		out[n] = in.Identity
		out[n].WorkerID = uint32(n)
		if in.WorkerID != nil {
			out[n].WorkerID = *in.WorkerID
		}
		out[n].AllowedCPUs, err = in.cpus()
		if err != nil {
			return nil, fmt.Errorf("identity of worker %d: %w", out[n].WorkerID, err)
		}
		out[n].restore()
	}
	return out, checkIDs("identities", out, func(i *Identity) uint32 { return i.WorkerID })
}

// cpus takes the list before the mask.
func (in *identityJSON) cpus() ([]uint32, error) {
	if len(in.AllowedIDs) > 0 && string(in.AllowedIDs) != "null" {
		ids, err := cpuIDs(in.AllowedIDs, "allowed_cpu_ids")
		if err != nil {
			return nil, err
		}
		slices.Sort(ids)
		return slices.Compact(ids), nil
	}
	if in.AllowedMask == nil {
		return nil, nil
	}
	return ParseMask(*in.AllowedMask)
}

func cpuIDs(raw json.RawMessage, name string) ([]uint32, error) {
	ids, err := listOf[uint32](raw, MaxCPUs, name)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if id >= MaxCPUs {
			return nil, fmt.Errorf("%s: CPU %d: %w (%d)", name, id, ErrLimit, MaxCPUs)
		}
	}
	return ids, nil
}

// Mask is the bitmap of CPUs as a lower-case hexadecimal number.
func Mask(cpus []uint32) string {
	if len(cpus) == 0 {
		return "0"
	}
	digits := make([]byte, slices.Max(cpus)/4+1)
	for _, cpu := range cpus {
		digits[len(digits)-1-int(cpu/4)] |= 1 << (cpu % 4)
	}
	for i, d := range digits {
		digits[i] = "0123456789abcdef"[d]
	}
	return string(digits)
}

// ParseMask reads a bitmap of CPUs: hexadecimal, also with 0x before it and with the
// commas of /proc/<pid>/status. The list is ascending and not nil.
func ParseMask(text string) ([]uint32, error) {
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(text), "0x"), ",", "")
	if digits == "" || len(digits) > MaxCPUs/4 {
		return nil, fmt.Errorf("a CPU mask of %d hexadecimal digits: %w (1 to %d)", len(digits), ErrLimit, MaxCPUs/4)
	}
	cpus := []uint32{}
	for i := range len(digits) {
		at := len(digits) - 1 - i
		d, err := strconv.ParseUint(digits[at:at+1], 16, 8)
		if err != nil {
			return nil, fmt.Errorf("a CPU mask with %q in it: %w", digits[at:at+1], ErrFormat)
		}
		for bit := range uint32(4) {
			if d>>bit&1 != 0 {
				cpus = append(cpus, uint32(i)*4+bit)
			}
		}
	}
	return cpus, nil
}
