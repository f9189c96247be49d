package resourcetracker

import (
	"github.com/resource-tracker/rt"
)

// LiveProcess is what the JSON of the live dialect has of the job or the process tree, next to
// section 6.1.
type LiveProcess struct {
	rt.ProcessScalars
	PID rt.Opt[uint64] // the root of the process tree
	RSS rt.Opt[uint64] // bytes: the sum of the resident sets of the tree

	// The job's cgroup in the interval.
	CgroupCores   rt.Opt[float64] // fractional cores
	CgroupSeconds rt.Opt[float64] // CPU time
}

// liveSample is a sample as resource-tracker 0.1.14 of Rust writes it.
type liveSample struct {
	TimestampSecs int64            `json:"timestamp_secs"`
	JobName       rt.Opt[string]   `json:"job_name"`
	TrackedPID    rt.Opt[uint64]   `json:"tracked_pid"`
	CPU           liveCPU          `json:"cpu"`
	Memory        rt.MemoryMetrics `json:"memory"`
	Network       []rt.NetMetrics  `json:"network"`
	Disk          []rt.DiskMetrics `json:"disk"`
	GPU           []rt.GPUMetrics  `json:"gpu"`
}

type liveCPU struct {
	UtilizationPct        rt.Opt[float64]   `json:"utilization_pct"`
	CgroupUtilizationPct  rt.Opt[float64]   `json:"cgroup_utilization_pct"` // fractional cores
	CgroupUsageSecs       rt.Opt[float64]   `json:"cgroup_usage_secs"`
	PerCorePct            []rt.Opt[float64] `json:"per_core_pct"`
	UtimeSecs             rt.Opt[float64]   `json:"utime_secs"`
	StimeSecs             rt.Opt[float64]   `json:"stime_secs"`
	ProcessCount          rt.Opt[uint64]    `json:"process_count"`
	ProcessCoresUsed      rt.Opt[float64]   `json:"process_cores_used"`
	ProcessChildCount     rt.Opt[uint64]    `json:"process_child_count"`
	ProcessUtimeSecs      rt.Opt[float64]   `json:"process_utime_secs"`
	ProcessStimeSecs      rt.Opt[float64]   `json:"process_stime_secs"`
	ProcessPSSMiB         rt.Opt[uint64]    `json:"process_pss_mib"`
	ProcessRSSMiB         rt.Opt[uint64]    `json:"process_rss_mib"`
	ProcessDiskReadBytes  rt.Opt[uint64]    `json:"process_disk_read_bytes"`
	ProcessDiskWriteBytes rt.Opt[uint64]    `json:"process_disk_write_bytes"`
	ProcessGPUUsage       rt.Opt[float64]   `json:"process_gpu_usage"`
	ProcessGPUVRAMMiB     rt.Opt[float64]   `json:"process_gpu_vram_mib"`
	ProcessGPUUtilized    rt.Opt[uint64]    `json:"process_gpu_utilized"`
}

// AppendLiveJSON is AppendJSON with the fields of resource-tracker 0.1.14. s is the sample of the
// node. As in the CSV of this dialect, the memory of a job is its cgroup's without page cache.
func AppendLiveJSON(dst []byte, s *rt.Sample, p *LiveProcess, version string) []byte {
	live := liveSample{
		TimestampSecs: s.TimestampSecs, JobName: s.JobName, TrackedPID: p.PID,
		Memory: s.Memory, Network: s.Network, Disk: s.Disk, GPU: s.GPU,
		CPU: liveCPU{
			UtilizationPct: s.CPU.UtilizationPct, PerCorePct: s.CPU.PerCorePct,
			UtimeSecs: s.CPU.UtimeSecs, StimeSecs: s.CPU.StimeSecs, ProcessCount: s.CPU.ProcessCount,
			CgroupUtilizationPct: p.CgroupCores, CgroupUsageSecs: p.CgroupSeconds,
			ProcessCoresUsed: p.CPUUsage, ProcessChildCount: p.Children,
			ProcessUtimeSecs: divided(p.UserMillis, 1000), ProcessStimeSecs: divided(p.SystemMillis, 1000),
			ProcessPSSMiB: wholeMiB(p.Memory), ProcessRSSMiB: wholeMiB(p.RSS),
			ProcessDiskReadBytes: p.DiskReadBytes, ProcessDiskWriteBytes: p.DiskWriteBytes,
			ProcessGPUUsage: p.GPU.Usage, ProcessGPUVRAMMiB: divided(p.GPU.VRAMUsed, 1<<20), ProcessGPUUtilized: p.GPU.Utilized,
		},
	}
	return appendSample(dst, live, version)
}

func divided(v rt.Opt[uint64], unit float64) rt.Opt[float64] {
	return rt.Map(v, func(n uint64) float64 { return float64(n) / unit })
}

func wholeMiB(v rt.Opt[uint64]) rt.Opt[uint64] {
	return rt.Map(v, func(n uint64) uint64 { return n >> 20 })
}
