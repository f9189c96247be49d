package gempba

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// The shapes of the lines, in the order of their fields.
type envelopeJSON struct {
	Version        uint32          `json:"version,omitzero"`
	TS             int64           `json:"ts"`
	ElapsedSeconds uint64          `json:"elapsed_seconds"`
	Topology       *Topology       `json:"topology"`
	Workers        []workerJSON    `json:"workers"`
	Nodes          []nodeFrameJSON `json:"nodes"`
	Run            *Run            `json:"rt_run,omitempty"`
}

type workerJSON struct {
	WorkerID        *uint32         `json:"worker_id"`
	SeqNo           rt.Opt[uint64]  `json:"seq_no"`
	WorkerLocalMS   rt.Opt[int64]   `json:"worker_local_ms"`
	TasksLocalTotal rt.Opt[uint64]  `json:"tasks_local_total"`
	TasksSentTotal  rt.Opt[uint64]  `json:"tasks_sent_total"`
	TasksRecvTotal  rt.Opt[uint64]  `json:"tasks_recv_total"`
	TasksRunning    rt.Opt[uint64]  `json:"tasks_running"`
	PendingCount    rt.Opt[uint64]  `json:"scheduler_pending_count"`
	IdleMicros      rt.Opt[uint64]  `json:"idle_microseconds_per_worker"`
	ProcessCPUPct   rt.Opt[float64] `json:"process_cpu_pct"`
	ProcessRSSBytes rt.Opt[uint64]  `json:"process_rss_bytes"`
	ProcessThreads  rt.Opt[uint64]  `json:"process_threads"`
	EdgesOut        json.RawMessage `json:"edges_out"`
	Peers           json.RawMessage `json:"rt_peers,omitempty"`
}

type nodeFrameJSON struct {
	SentinelWorkerID    *uint32         `json:"sentinel_worker_id"`
	Hostname            string          `json:"hostname"`
	SentinelLocalMS     rt.Opt[int64]   `json:"sentinel_local_ms"`
	SocketCount         rt.Opt[uint64]  `json:"socket_count"`
	LogicalCores        rt.Opt[uint64]  `json:"logical_cores"`
	Sockets             json.RawMessage `json:"sockets"`
	MemTotalBytes       rt.Opt[uint64]  `json:"mem_total_bytes"`
	MemAvailBytes       rt.Opt[uint64]  `json:"mem_avail_bytes"`
	CgroupMemUsedBytes  rt.Opt[uint64]  `json:"cgroup_mem_used_bytes,omitzero"`
	CgroupMemLimitBytes rt.Opt[uint64]  `json:"cgroup_mem_limit_bytes,omitzero"`
	Net                 NetAggregate    `json:"net_aggregate"`
	Disk                DiskAggregate   `json:"disk_aggregate"`
}

type socketFrameJSON struct {
	SocketID      uint32          `json:"socket_id"`
	CPUPct        rt.Opt[float64] `json:"cpu_pct"`
	MemTotalBytes rt.Opt[uint64]  `json:"mem_total_bytes"`
	MemUsedBytes  rt.Opt[uint64]  `json:"mem_used_bytes"`
}

// AppendLine appends the envelope as one line. It appends nothing if a limit is exceeded (ErrLimit).
func AppendLine(b []byte, e *Envelope) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, fmt.Errorf("write a line of telemetry: %w", err)
	}
	out := envelopeJSON{
		Version: e.Version, TS: e.TS, ElapsedSeconds: e.ElapsedSeconds, Topology: e.Topology.listed(),
		Workers: make([]workerJSON, len(e.Workers)), Nodes: make([]nodeFrameJSON, len(e.Nodes)), Run: e.Run,
	}
	for i := range e.Workers {
		out.Workers[i] = e.Workers[i].json()
	}
	for i := range e.Nodes {
		out.Nodes[i] = e.Nodes[i].json()
	}
	line, err := json.Marshal(out)
	if err != nil {
		return b, fmt.Errorf("write a line of telemetry: %w", err)
	}
	if len(line) >= MaxLine {
		return b, fmt.Errorf("write a line of telemetry: it has %d bytes: %w (%d)", len(line), ErrLimit, MaxLine)
	}
	return append(append(b, line...), '\n'), nil
}

func (w *WorkerFrame) json() workerJSON {
	out := workerJSON{
		WorkerID: &w.WorkerID, SeqNo: w.SeqNo, WorkerLocalMS: w.WorkerLocalMS,
		TasksLocalTotal: w.TasksLocalTotal, TasksSentTotal: w.TasksSentTotal, TasksRecvTotal: w.TasksRecvTotal,
		TasksRunning: w.TasksRunning, PendingCount: w.PendingCount, IdleMicros: w.IdleMicros,
		ProcessCPUPct: finite(w.ProcessCPUPct), ProcessRSSBytes: w.ProcessRSSBytes, ProcessThreads: w.ProcessThreads,
		EdgesOut: array(w.EdgesOut),
	}
	if len(w.Peers) > 0 {
		out.Peers = array(w.Peers)
	}
	return out
}

func (n *NodeFrame) json() nodeFrameJSON {
	sockets := make([]socketFrameJSON, len(n.Sockets))
	for i, s := range n.Sockets {
		s.CPUPct = finite(s.CPUPct)
		sockets[i] = socketFrameJSON(s)
	}
	return nodeFrameJSON{
		SentinelWorkerID: &n.SentinelWorkerID, Hostname: n.Hostname, SentinelLocalMS: n.SentinelLocalMS,
		SocketCount: n.SocketCount, LogicalCores: n.LogicalCores, Sockets: array(sockets),
		MemTotalBytes: n.MemTotalBytes, MemAvailBytes: n.MemAvailBytes,
		CgroupMemUsedBytes: n.CgroupMemUsedBytes, CgroupMemLimitBytes: n.CgroupMemLimitBytes,
		Net: n.Net, Disk: n.Disk,
	}
}

// listed returns t with empty lists for absent ones: readers need not expect null.
func (t *Topology) listed() *Topology {
	if t == nil {
		return nil
	}
	out := Topology{Nodes: make([]TopologyNode, len(t.Nodes)), Identities: t.Identities}
	if out.Identities == nil {
		out.Identities = []Identity{}
	}
	for i, n := range t.Nodes {
		n.WorkerIDs = append([]uint32{}, n.WorkerIDs...)
		n.Sockets = append([]Socket{}, n.Sockets...)
		for k := range n.Sockets {
			n.Sockets[k].CPUIDs = append([]uint32{}, n.Sockets[k].CPUIDs...)
		}
		out.Nodes[i] = n
	}
	return &out
}

// array returns the JSON of a list of numbers and addresses, which cannot fail.
func array[T any](list []T) json.RawMessage {
	if len(list) == 0 {
		return json.RawMessage("[]")
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("gempba: a list of numbers has no JSON: %v", err))
	}
	return b
}

// finite drops values that JSON has no number for.
func finite(v rt.Opt[float64]) rt.Opt[float64] {
	if f := v.Or(0); math.IsNaN(f) || math.IsInf(f, 0) {
		return rt.None[float64]()
	}
	return v
}
