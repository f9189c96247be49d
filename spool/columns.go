package spool

import (
	"strings"

	"github.com/resource-tracker/rt"
)

// kib is the unit of the columns whose names end in _kib.
const kib = 1024

// Columns of snapshot_delta that are differences, in the order of the schema:
// first the boot clock and how far the
// other is from it, then the ticks of the node, then the fields of optionals.
const (
	colBoot, colClock = 0, 1
	colTicks          = 2
	numTicks          = 8
	colOpt            = colTicks + numTicks
	numOpt            = 49
	numCols           = colOpt + numOpt
)

// deltaColumns names them. A name says the unit.
var deltaColumns = [numCols]string{
	"boot_us", "clock_us",
	"node_cpu_user_ticks", "node_cpu_nice_ticks", "node_cpu_system_ticks", "node_cpu_idle_ticks",
	"node_cpu_iowait_ticks", "node_cpu_irq_ticks", "node_cpu_softirq_ticks", "node_cpu_steal_ticks",
	"node_cpus", "node_processes", "node_mem_total_kib", "node_mem_free_kib", "node_mem_available_kib",
	"node_buffers_kib", "node_cached_kib", "node_sreclaimable_kib", "node_shmem_kib", "node_active_kib",
	"node_inactive_kib", "node_swap_total_kib", "node_swap_free_kib", "node_net_rx_bytes", "node_net_tx_bytes",
	"node_disk_read_bytes", "node_disk_write_bytes", "node_space_total_kib", "node_space_available_kib",
	"node_gpu_vram_used_kib", "node_gpus_utilized", "job_cpu_usage_us", "job_cpu_user_us", "job_cpu_system_us",
	"job_cpu_throttled_us", "job_mem_current_kib", "job_mem_peak_kib", "job_mem_limit_kib", "job_swap_kib",
	"job_anon_kib", "job_file_kib", "job_shmem_kib", "job_kernel_bytes", "job_slab_reclaimable_bytes",
	"job_active_kib", "job_inactive_kib", "job_page_faults", "job_major_faults", "job_events_high",
	"job_events_max", "job_events_oom", "job_events_oom_kill", "job_pids", "job_io_read_bytes",
	"job_io_write_bytes", "tree_cpu_user_ticks", "tree_cpu_system_ticks", "tree_children", "tree_rss_kib",
}

// deltaUnit holds the bytes of a stored unit: 1024 for the columns in KiB.
var deltaUnit = func() (unit [numCols]int64) {
	for i, name := range deltaColumns {
		unit[i] = 1
		if strings.HasSuffix(name, "_kib") {
			unit[i] = kib
		}
	}
	return unit
}()

// optFields lists the optional fields of s in the order of the columns.
func optFields(s *rt.Snapshot) [numOpt]*rt.Opt[uint64] {
	return [...]*rt.Opt[uint64]{
		&s.Node.CPUs, &s.Node.Processes, &s.Node.MemTotal, &s.Node.MemFree, &s.Node.MemAvailable, &s.Node.Buffers,
		&s.Node.Cached, &s.Node.SReclaimable, &s.Node.Shmem, &s.Node.Active, &s.Node.Inactive, &s.Node.SwapTotal,
		&s.Node.SwapFree, &s.Node.NetRxBytes, &s.Node.NetTxBytes, &s.Node.DiskReadBytes, &s.Node.DiskWriteBytes,
		&s.Node.SpaceTotal, &s.Node.SpaceAvailable, &s.Node.GPUVRAMUsed, &s.Node.GPUUtilized, &s.Job.CPUUsage,
		&s.Job.CPUUser, &s.Job.CPUSystem, &s.Job.CPUThrottled, &s.Job.MemCurrent, &s.Job.MemPeak, &s.Job.MemLimit,
		&s.Job.Swap, &s.Job.Anon, &s.Job.File, &s.Job.Shmem, &s.Job.Kernel, &s.Job.SlabReclaimable, &s.Job.Active,
		&s.Job.Inactive, &s.Job.PageFaults, &s.Job.MajorFaults, &s.Job.EventsHigh, &s.Job.EventsMax,
		&s.Job.EventsOOM, &s.Job.EventsOOMKill, &s.Job.Pids, &s.Job.IOReadBytes, &s.Job.IOWriteBytes,
		&s.Tree.CPUUserTicks, &s.Tree.CPUSystemTicks, &s.Tree.Children, &s.Tree.RSS,
	}
}

// tickFields lists the tick counters in the order of the columns.
func tickFields(t *rt.CPUTimes) [numTicks]*uint64 {
	return [...]*uint64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal}
}
