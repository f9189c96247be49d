package gempba

import (
	"net/netip"
	"time"

	"github.com/resource-tracker/rt"
)

// SchemaVersion is TELEMETRY_SCHEMA_VERSION: what is written, and the newest that is read.
const SchemaVersion = 1

// The format's limits, and our own.
const (
	MaxWorkers = 1024    // of a job, and so the destinations of a worker's edges; ids are below it
	MaxSockets = 8       // of a host
	MaxCPUs    = 8192    // of a host: ids are below it
	MaxPeers   = 256     // of a worker
	MaxLine    = 8 << 20 // bytes of one line, its end included
)

// The default intervals of frames. A line has the interval of the workers.
const (
	WorkerInterval = 500 * time.Millisecond
	NodeInterval   = 1000 * time.Millisecond
)

// Envelope is one line of the broadcast.
type Envelope struct {
	Version        uint32        `json:"version,omitzero"` // SchemaVersion; 0 if the line has none
	TS             int64         `json:"ts"`               // milliseconds since the epoch, when it was sent
	ElapsedSeconds uint64        `json:"elapsed_seconds"`  // since the telemetry came up
	Topology       *Topology     `json:"topology"`
	Workers        []WorkerFrame `json:"workers"`          // the newest of each
	Nodes          []NodeFrame   `json:"nodes"`            // the newest of each host
	Run            *RunIdentity  `json:"rt_run,omitempty"` // nil in GemPBA's own lines
}

// RunIdentity identifies the job of the workers. It is rt's own field, "rt_run", which GemPBA's lines do not have and
// its readers ignore.
type RunIdentity struct {
	Cluster     string         `json:"cluster,omitempty"`
	JobID       rt.Opt[uint64] `json:"job_id"`
	ArrayJobID  rt.Opt[uint64] `json:"array_job_id,omitzero"`
	ArrayTaskID rt.Opt[uint64] `json:"array_task_id,omitzero"`
	Step        string         `json:"step,omitempty"`
	JobName     string         `json:"job_name,omitempty"`
	User        string         `json:"user,omitempty"`
	UID         rt.Opt[uint64] `json:"uid"`
	Account     string         `json:"account,omitempty"`
	Partition   string         `json:"partition,omitempty"`
}

// WorkerFrame is one sample of a worker. Counters are since it began.
type WorkerFrame struct {
	WorkerID      uint32         `json:"worker_id"` // below MaxWorkers
	SeqNo         rt.Opt[uint64] `json:"seq_no"`
	WorkerLocalMS rt.Opt[int64]  `json:"worker_local_ms"` // milliseconds of the worker's own clock, when it was sampled

	TasksLocalTotal rt.Opt[uint64] `json:"tasks_local_total"`            // given to the worker's own threads
	TasksSentTotal  rt.Opt[uint64] `json:"tasks_sent_total"`             // given to other workers; none is in both
	TasksRecvTotal  rt.Opt[uint64] `json:"tasks_recv_total"`             // taken from other workers
	TasksRunning    rt.Opt[uint64] `json:"tasks_running"`                // now
	PendingCount    rt.Opt[uint64] `json:"scheduler_pending_count"`      // requests in the scheduler's queue, now
	IdleMicros      rt.Opt[uint64] `json:"idle_microseconds_per_worker"` // idle time of the pool by its size, microseconds

	ProcessCPUPct   rt.Opt[float64] `json:"process_cpu_pct"` // percent of one core: 100 is one core in full
	ProcessRSSBytes rt.Opt[uint64]  `json:"process_rss_bytes"`
	ProcessThreads  rt.Opt[uint64]  `json:"process_threads"`

	EdgesOut []Edge `json:"edges_out"`          // those with a count above 0
	Peers    []Peer `json:"rt_peers,omitempty"` // rt's own field, to join the lines of several hosts

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see absent.go
}

// Peer is an open connection from a worker to an end that is no worker of its host, and the bytes that it has sent.
type Peer struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	Bytes  uint64         `json:"bytes"`
	Count  uint64         `json:"count"` // packets with data
}

// Edge is what a worker has sent to another one since it began.
type Edge struct {
	To    uint32 `json:"to"` // worker_id
	Bytes uint64 `json:"bytes"`
	Count uint64 `json:"count"` // tasks or messages
}

// NodeFrame is one sample of a host, which its sentinel takes.
type NodeFrame struct {
	SentinelWorkerID uint32        `json:"sentinel_worker_id"`
	Hostname         string        `json:"hostname"`
	SentinelLocalMS  rt.Opt[int64] `json:"sentinel_local_ms"` // milliseconds of the sentinel's own clock, when it was sampled

	SocketCount  rt.Opt[uint64] `json:"socket_count"`
	LogicalCores rt.Opt[uint64] `json:"logical_cores"`
	Sockets      []SocketFrame  `json:"sockets"` // at most MaxSockets

	MemTotalBytes rt.Opt[uint64] `json:"mem_total_bytes"`
	MemAvailBytes rt.Opt[uint64] `json:"mem_avail_bytes"`

	// The memory of the sentinel's cgroup in bytes. Absent if it is not known; the limit is also
	// absent if there is none. In a line absent values are 0, as in GemPBA.
	CgroupMemUsedBytes  rt.Opt[uint64] `json:"cgroup_mem_used_bytes"`
	CgroupMemLimitBytes rt.Opt[uint64] `json:"cgroup_mem_limit_bytes"`

	Net  NetAggregate  `json:"net_aggregate"`
	Disk DiskAggregate `json:"disk_aggregate"`

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see absent.go
}

// SocketFrame is one sample of a CPU package.
type SocketFrame struct {
	SocketID      uint32          `json:"socket_id"`
	CPUPct        rt.Opt[float64] `json:"cpu_pct"`         // 0..100: percent of all its logical cores
	MemTotalBytes rt.Opt[uint64]  `json:"mem_total_bytes"` // of the memory that is attached to it
	MemUsedBytes  rt.Opt[uint64]  `json:"mem_used_bytes"`

	Unread []string `json:"rt_unread,omitempty"` // only in lines: see absent.go
}

// NetAggregate counts what the host's interfaces carried since it booted.
type NetAggregate struct {
	BytesIn    rt.Opt[uint64] `json:"bytes_in"`
	BytesOut   rt.Opt[uint64] `json:"bytes_out"`
	PacketsIn  rt.Opt[uint64] `json:"packets_in"`
	PacketsOut rt.Opt[uint64] `json:"packets_out"`
}

// DiskAggregate counts what the host's drives carried since it booted, in bytes.
type DiskAggregate struct {
	ReadBytes  rt.Opt[uint64] `json:"read_bytes"`
	WriteBytes rt.Opt[uint64] `json:"write_bytes"`
}
