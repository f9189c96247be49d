package rt

// Scope says to what the figures of a sample belong.
type Scope string

// The scopes of a sample.
const (
	ScopeNode Scope = "node" // the whole node
	ScopeJob  Scope = "job"  // the job's cgroup if it has such a figure, else the node
)

// Sample is what happened in one interval: section 6 of the specification.
type Sample struct {
	TimestampSecs int64         `json:"timestamp_secs"` // end of the interval, Unix time
	JobName       Opt[string]   `json:"job_name"`
	CPU           CPUMetrics    `json:"cpu"`
	Memory        MemoryMetrics `json:"memory"`
	Network       []NetMetrics  `json:"network"`
	Disk          []DiskMetrics `json:"disk"`
	GPU           []GPUMetrics  `json:"gpu"`
	Scalars       Scalars       `json:"-"` // the columns of section 7.2
}

// Scalars are the 20 figures that follow the time stamp in section 7.2, unrounded.
// It is a value: deriving it allocates nothing.
type Scalars struct {
	Seconds float64 // length of the interval, CLOCK_BOOTTIME

	Processes Opt[uint64]
	// CPU time of the interval in milliseconds: differences of rounded totals. So a run's rows add up to the rounded
	// total of the run.
	UserMillis, SystemMillis Opt[uint64]
	CPUUsage                 Opt[float64] // fractional cores

	// MiB
	MemFree, MemUsed, MemBuffers, MemCached, MemActive, MemInactive Opt[uint64]

	DiskReadBytes, DiskWriteBytes Opt[uint64] // bytes in the interval
	SpaceTotal, SpaceAvailable    Opt[uint64] // bytes
	NetRecvBytes, NetSentBytes    Opt[uint64] // bytes in the interval, over all interfaces except lo

	GPUs        Opt[uint64]  // of the node; the use of none is absent
	GPUUsage    Opt[float64] // fractional GPUs
	GPUVRAMUsed Opt[uint64]  // bytes
	GPUUtilized Opt[uint64]  // count
}

// ProcessScalars is what the job's cgroup, or the process tree of a run without a job, used in an interval:
// Sentinel's live columns process_*. It is a value: deriving it allocates nothing.
type ProcessScalars struct {
	Children                      Opt[uint64]  // processes of the job, or descendants of the root pid
	UserMillis, SystemMillis      Opt[uint64]  // as in Scalars
	CPUUsage                      Opt[float64] // fractional cores
	Memory                        Opt[uint64]  // bytes: of the job without page cache, or the PSS of the tree
	DiskReadBytes, DiskWriteBytes Opt[uint64]  // bytes in the interval
	GPU                           GPUUse       // of the job's GPUs, or of the tree's processes
}

// CPUMetrics is section 6.1.1.
type CPUMetrics struct {
	UtilizationPct    Opt[float64]   `json:"utilization_pct"` // fractional cores, 0..N
	PerCorePct        []Opt[float64] `json:"per_core_pct"`    // 0..100 per online CPU, ascending
	UtimeSecs         Opt[float64]   `json:"utime_secs"`
	StimeSecs         Opt[float64]   `json:"stime_secs"`
	ProcessCount      Opt[uint64]    `json:"process_count"`
	ProcessCoresUsed  Opt[float64]   `json:"process_cores_used"`
	ProcessChildCount Opt[uint64]    `json:"process_child_count"`
}

// MemoryMetrics is section 6.1.2; MiB and percent.
type MemoryMetrics struct {
	TotalMiB     Opt[uint64]  `json:"total_mib"`
	FreeMiB      Opt[uint64]  `json:"free_mib"`
	AvailableMiB Opt[uint64]  `json:"available_mib"`
	UsedMiB      Opt[uint64]  `json:"used_mib"`
	UsedPct      Opt[float64] `json:"used_pct"`
	BuffersMiB   Opt[uint64]  `json:"buffers_mib"`
	CachedMiB    Opt[uint64]  `json:"cached_mib"`
	SwapTotalMiB Opt[uint64]  `json:"swap_total_mib"`
	SwapUsedMiB  Opt[uint64]  `json:"swap_used_mib"`
	SwapUsedPct  Opt[float64] `json:"swap_used_pct"`
	ActiveMiB    Opt[uint64]  `json:"active_mib"`
	InactiveMiB  Opt[uint64]  `json:"inactive_mib"`
}

// NetMetrics is section 6.1.3, one per interface.
type NetMetrics struct {
	Interface     string       `json:"interface"`
	MACAddress    Opt[string]  `json:"mac_address"`
	Driver        Opt[string]  `json:"driver"`
	OperState     Opt[string]  `json:"operstate"`
	SpeedMbps     Opt[int64]   `json:"speed_mbps"`
	MTU           Opt[uint64]  `json:"mtu"`
	RxBytesPerSec Opt[float64] `json:"rx_bytes_per_sec"`
	TxBytesPerSec Opt[float64] `json:"tx_bytes_per_sec"`
	RxBytesTotal  Opt[uint64]  `json:"rx_bytes_total"`
	TxBytesTotal  Opt[uint64]  `json:"tx_bytes_total"`
}

// DiskMetrics is section 6.1.4, one per block device.
type DiskMetrics struct {
	Device           string         `json:"device"`
	Model            Opt[string]    `json:"model"`
	Vendor           Opt[string]    `json:"vendor"`
	Serial           Opt[string]    `json:"serial"`
	DeviceType       Opt[string]    `json:"device_type"`
	CapacityBytes    Opt[uint64]    `json:"capacity_bytes"`
	Mounts           []MountMetrics `json:"mounts"`
	ReadBytesPerSec  Opt[float64]   `json:"read_bytes_per_sec"`
	WriteBytesPerSec Opt[float64]   `json:"write_bytes_per_sec"`
	ReadBytesTotal   Opt[uint64]    `json:"read_bytes_total"`
	WriteBytesTotal  Opt[uint64]    `json:"write_bytes_total"`
}

// MountMetrics is one mounted file system of a DiskMetrics.
type MountMetrics struct {
	MountPoint     string  `json:"mount_point"`
	Filesystem     string  `json:"filesystem"`
	TotalBytes     uint64  `json:"total_bytes"`
	AvailableBytes uint64  `json:"available_bytes"`
	UsedBytes      uint64  `json:"used_bytes"`
	UsedPct        float64 `json:"used_pct"`
}

// GPUMetrics is section 6.1.5, one per GPU.
type GPUMetrics struct {
	UUID           string            `json:"uuid"`
	Name           string            `json:"name"`
	DeviceType     string            `json:"device_type"`
	HostID         string            `json:"host_id"`
	Detail         map[string]string `json:"detail"`
	UtilizationPct Opt[float64]      `json:"utilization_pct"`
	VRAMTotalBytes Opt[uint64]       `json:"vram_total_bytes"`
	VRAMUsedBytes  Opt[uint64]       `json:"vram_used_bytes"`
	VRAMUsedPct    Opt[float64]      `json:"vram_used_pct"`
	Temperature    Opt[uint64]       `json:"temperature_celsius"`
	PowerWatts     Opt[float64]      `json:"power_watts"`
	FrequencyMHz   Opt[uint64]       `json:"frequency_mhz"`
	CoreCount      Opt[uint64]       `json:"core_count"`
}
