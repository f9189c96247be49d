package spool

import (
	"strings"

	"github.com/resource-tracker/rt"
)

// kib is the unit of the columns whose names end in _kib.
const kib = 1024

// Columns of the figures of a snapshot: first the boot clock and how far the other
// is from it, then the ticks of the node, then the fields of optionals, then the
// two that are fractions and are stored as they are, not as differences.
const (
	colBoot, colClock = 0, 1
	colTicks          = 2
	numTicks          = 8
	colOpt            = colTicks + numTicks
	numOpt            = 69
	colReadBoot       = colOpt + numOpt
	numSums           = colReadBoot + 1 // the differences
	colNodeGPU        = numSums
	colJobGPU         = numSums + 1
	numCols           = numSums + 2
)

// The tables that hold the columns. A row of all but the first is left out where it
// would say nothing new.
const (
	inMoving = iota
	inSteady
	inTree
	inGPU
	numTables
)

// deltaTables names them.
var deltaTables = [numTables]string{"snapshot_delta", "steady_delta", "tree_delta", "gpu_delta"}

// deltaColumns names the columns and where they are. A name says the unit.
var deltaColumns = [numCols]struct {
	name  string
	table int
}{
	{"boot_us", inMoving}, {"clock_us", inMoving}, {"node_cpu_user_ticks", inMoving}, {"node_cpu_nice_ticks", inMoving},
	{"node_cpu_system_ticks", inMoving}, {"node_cpu_idle_ticks", inMoving}, {"node_cpu_iowait_ticks", inMoving},
	{"node_cpu_irq_ticks", inMoving}, {"node_cpu_softirq_ticks", inMoving}, {"node_cpu_steal_ticks", inMoving}, {"node_cpus", inSteady},
	{"node_processes", inMoving}, {"node_mem_total_kib", inSteady}, {"node_mem_free_kib", inMoving}, {"node_mem_available_kib", inMoving},
	{"node_buffers_kib", inMoving}, {"node_cached_kib", inMoving}, {"node_sreclaimable_kib", inMoving}, {"node_shmem_kib", inMoving},
	{"node_active_kib", inMoving}, {"node_inactive_kib", inMoving}, {"node_swap_total_kib", inSteady}, {"node_swap_free_kib", inSteady},
	{"node_net_rx_bytes", inMoving}, {"node_net_tx_bytes", inMoving}, {"node_disk_read_bytes", inMoving},
	{"node_disk_write_bytes", inMoving}, {"node_space_total_kib", inSteady}, {"node_space_available_kib", inMoving},
	{"node_gpu_vram_used_kib", inGPU}, {"node_gpus_utilized", inGPU}, {"job_cpu_usage_us", inMoving}, {"job_cpu_user_us", inMoving},
	{"job_cpu_system_us", inMoving}, {"job_cpu_throttled_us", inSteady}, {"job_mem_current_kib", inMoving}, {"job_mem_peak_kib", inSteady},
	{"job_mem_limit_kib", inSteady}, {"job_swap_kib", inSteady}, {"job_anon_kib", inMoving}, {"job_file_kib", inMoving},
	{"job_shmem_kib", inMoving}, {"job_kernel_bytes", inMoving}, {"job_slab_reclaimable_bytes", inMoving}, {"job_active_kib", inMoving},
	{"job_inactive_kib", inMoving}, {"job_page_faults", inMoving}, {"job_major_faults", inSteady}, {"job_events_high", inSteady},
	{"job_events_max", inSteady}, {"job_events_oom", inSteady}, {"job_events_oom_kill", inSteady}, {"job_pids", inSteady},
	{"job_io_read_bytes", inMoving}, {"job_io_write_bytes", inMoving}, {"tree_cpu_user_ticks", inTree}, {"tree_cpu_system_ticks", inTree},
	{"tree_children", inTree}, {"tree_rss_kib", inTree}, {"node_load1_hundredths", inMoving}, {"node_cpu_freq_khz", inMoving},
	{"job_stepd_cpu_usage_us", inMoving}, {"job_mem_interval_peak_kib", inMoving}, {"job_threads", inMoving},
	{"job_cpu_stall_some_us", inMoving}, {"job_cpu_stall_full_us", inMoving}, {"job_mem_stall_some_us", inMoving},
	{"job_mem_stall_full_us", inMoving}, {"job_io_stall_some_us", inMoving}, {"job_io_stall_full_us", inMoving},
	{"job_hugetlb_kib", inSteady}, {"job_rdma_handles", inSteady}, {"job_rdma_objects", inSteady}, {"job_proc_read_bytes", inMoving},
	{"job_proc_write_bytes", inMoving}, {"job_voluntary_switches", inMoving}, {"job_involuntary_switches", inMoving},
	{"job_gpu_vram_used_kib", inGPU}, {"job_gpus_utilized", inGPU}, {"node_read_boot_us", inMoving}, {"node_gpu_usage", inGPU},
	{"job_gpu_usage", inGPU},
}

// tableColumns lists the columns of each table.
var tableColumns = func() (of [numTables][]int) {
	for i, c := range deltaColumns {
		of[c.table] = append(of[c.table], i)
	}
	return of
}()

// rateColumns lists of each table those columns that rt.DeriveScalars and
// rt.DeriveProcess look at, which is three fifths of them.
var rateColumns = func() (of [numTables][]int) {
	for table, columns := range tableColumns {
		for _, i := range columns {
			if !notDerived[deltaColumns[i].name] {
				of[table] = append(of[table], i)
			}
		}
	}
	return of
}()

// notDerived are the columns of which no rate and no row of CSV is made.
var notDerived = map[string]bool{
	"node_mem_available_kib": true, "node_shmem_kib": true, "node_swap_total_kib": true, "node_swap_free_kib": true,
	"job_cpu_throttled_us": true, "job_mem_peak_kib": true, "job_swap_kib": true, "job_anon_kib": true, "job_shmem_kib": true,
	"job_kernel_bytes": true, "job_page_faults": true, "job_major_faults": true, "job_events_high": true, "job_events_max": true,
	"job_events_oom": true, "job_events_oom_kill": true, "node_load1_hundredths": true, "node_cpu_freq_khz": true,
	"job_stepd_cpu_usage_us": true, "job_mem_interval_peak_kib": true, "job_threads": true, "job_cpu_stall_some_us": true,
	"job_cpu_stall_full_us": true, "job_mem_stall_some_us": true, "job_mem_stall_full_us": true, "job_io_stall_some_us": true,
	"job_io_stall_full_us": true, "job_hugetlb_kib": true, "job_rdma_handles": true, "job_rdma_objects": true,
	"job_voluntary_switches": true, "job_involuntary_switches": true,
}

// columnNames lists the names of some columns.
func columnNames(columns []int) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = deltaColumns[c].name
	}
	return list
}

// deltaUnit holds the bytes of a stored unit: 1024 for the columns in KiB.
var deltaUnit = func() (unit [numCols]int64) {
	for i, c := range deltaColumns {
		unit[i] = 1
		if strings.HasSuffix(c.name, "_kib") {
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
		&s.Node.Load1, &s.Node.CPUFreq, &s.Job.StepdCPUUsage, &s.Job.MemIntervalPeak, &s.Job.Threads,
		&s.Job.CPUStallSome, &s.Job.CPUStallFull, &s.Job.MemStallSome, &s.Job.MemStallFull,
		&s.Job.IOStallSome, &s.Job.IOStallFull, &s.Job.HugeTLB, &s.Job.RDMAHandles, &s.Job.RDMAObjects,
		&s.Job.ProcReadBytes, &s.Job.ProcWriteBytes, &s.Job.VoluntarySwitches, &s.Job.InvoluntarySwitches,
		&s.GPU.VRAMUsed, &s.GPU.Utilized,
	}
}

// tickFields lists the tick counters in the order of the columns.
func tickFields(t *rt.CPUTimes) [numTicks]*uint64 {
	return [...]*uint64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal}
}
