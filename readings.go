package rt

import (
	"math"
)

// Unlimited is the value of a limit that the kernel reports as "max".
const Unlimited uint64 = math.MaxUint64

// JobPhase reports whether the job's cgroup existed when a snapshot was taken.
type JobPhase uint8

// The phases of a job on its node. They are stored by number: append only.
const (
	// JobNone: the run has no job cgroup (a wrapped command, a whole machine).
	JobNone JobPhase = iota
	// JobPending: the cgroup does not exist yet. No process of the job has run, so that
	// its counters, which are absent in this snapshot, start at zero.
	JobPending
	// JobPresent: the cgroup exists and was read.
	JobPresent
	// JobGone: the cgroup has been removed, or cannot be seen here; nothing more can be read of it.
	JobGone
)

// String returns the phase's name as the spool's views show it.
func (p JobPhase) String() string { return nameOf(int(p), "none", "pending", "present", "gone") }

// JobReading holds what was read of the job's cgroup on this node.
type JobReading struct {
	Phase JobPhase

	// Microseconds of CPU time of the job's own processes. v2: cpu.stat usage_usec, user_usec, system_usec,
	// throttled_usec. v1: cpuacct.usage, cpuacct.usage_user, cpuacct.usage_sys
	// (nanoseconds there), cpu.stat throttled_time. User and system time are scaled so that
	// they add up to the usage, because v1 samples them by tick. In v2 the directory contains
	// slurmstepd, too: its CPU time is subtracted.
	CPUUsage, CPUUser, CPUSystem, CPUThrottled Opt[uint64]
	// StepdCPUUsage is the CPU time of slurmstepd in the job's cgroup (v2:
	// step_<x>/slurm), in microseconds; absent if Slurm runs it elsewhere.
	StepdCPUUsage Opt[uint64]

	// Bytes. v2: memory.current, memory.peak, memory.max, memory.swap.current.
	// v1: memory.usage_in_bytes, memory.max_usage_in_bytes, the hierarchical limit.
	// A limit of "max" is Unlimited.
	MemCurrent, MemPeak, MemLimit, Swap Opt[uint64]
	// SwapPeak is the highest use of swap, in bytes: memory.swap.peak (v2, Linux 6.5).
	// v1 has the peak of memory and swap together only.
	SwapPeak Opt[uint64]
	// MemIntervalPeak is the highest MemCurrent since the previous snapshot, in bytes:
	// memory.peak of a descriptor that each reading resets (Linux 6.12).
	MemIntervalPeak Opt[uint64]
	// Bytes of memory.stat. v2: anon, file, shmem, kernel, slab_reclaimable,
	// active_anon + active_file, inactive_anon + inactive_file. v1: total_rss,
	// total_cache, total_shmem, absent, absent, total_active_*, total_inactive_*.
	Anon, File, Shmem, Kernel, SlabReclaimable, Active, Inactive Opt[uint64]
	// Counts of memory.stat: pgfault (minor and major), pgmajfault.
	PageFaults, MajorFaults Opt[uint64]
	// Counts of memory.events. v1: absent, memory.failcnt, absent, oom_kill of memory.oom_control.
	EventsHigh, EventsMax, EventsOOM, EventsOOMKill Opt[uint64]

	// Processes of the job: the entries of every cgroup.procs below it, without Slurm's own (pids.current would count
	// threads). With Slurm 26.05 and v1 slurmstepd is among them, and a reading that does not scan the processes
	// counts it.
	Pids Opt[uint64]
	// Bytes of io.stat (v2) or blkio.throttle.io_service_bytes_recursive (v1), where the controller is on.
	IOReadBytes, IOWriteBytes Opt[uint64]

	// Threads: pids.current.
	Threads Opt[uint64]
	// Microseconds in which some, or all, of the job's tasks waited for a CPU, for
	// memory, for I/O: total= of cpu.pressure, memory.pressure, io.pressure (v2).
	CPUStallSome, CPUStallFull, MemStallSome, MemStallFull, IOStallSome, IOStallFull Opt[uint64]
	// Suspended is the time in which the resource manager had suspended the job, in microseconds: at two readings in a
	// row a step was frozen. v2: frozen in cgroup.events of a step's processes. v1: freezer.state of a step.
	Suspended Opt[uint64]
	// HugeTLB is the sum of hugetlb.<size>.current (v1 .usage_in_bytes), in bytes.
	HugeTLB Opt[uint64]
	// Counts of rdma.current, over all devices.
	RDMAHandles, RDMAObjects Opt[uint64]

	// Sums over the job's processes, with the last values of ended processes: read_bytes and write_bytes of
	// /proc/<pid>/io. The two kinds of context switches are the first thread's, in /proc/<pid>/status.
	ProcReadBytes, ProcWriteBytes          Opt[uint64]
	VoluntarySwitches, InvoluntarySwitches Opt[uint64]

	// usageBoot is the Boot of the older snapshot from which CPUUsage was inherited, for the rate over the gap. 0:
	// CPUUsage was read here.
	usageBoot int64
	// ioFromZero: the job was pending before, so that an absent I/O counter started at
	// zero. The counter itself stays absent: the controller may never be enabled.
	ioFromZero bool
}

// CarryOver fills figures of some kinds that are absent in j with the figures of an older reading. Counter is for the
// gap before j. AnyKind is for a last reading, because the controllers of a job disappear one after another.
func (j *JobReading) CarryOver(older *JobReading, kinds Kind) {
	carryOver(JobFigures[:], j, older, kinds)
}

// AddEnded adds an earlier cgroup of the job, which is gone. Counters are added, the higher peak is kept, and j takes
// a limit that it lacks.
func (j *JobReading) AddEnded(earlier *JobReading) {
	for i := range JobFigures {
		f := &JobFigures[i]
		was, ok := f.Field(earlier).Get()
		if !ok {
			continue
		}
		switch v := f.Field(j); f.Kind {
		case Counter:
			v.Set(v.Or(0) + was)
		case Peak:
			v.Set(max(v.Or(0), was))
		case Limit:
			v.Set(v.Or(was))
		}
	}
}

// SubtractEarlier subtracts the counters of an earlier reading of the same cgroup. A peak that is not
// higher than the earlier one is cleared, because it may have been reached before.
func (j *JobReading) SubtractEarlier(earlier *JobReading) {
	for i := range JobFigures {
		f := &JobFigures[i]
		v := f.Field(j)
		now, isRead := v.Get()
		was, wasRead := f.Field(earlier).Get()
		if !isRead || !wasRead {
			continue
		}
		switch {
		case f.Kind == Counter:
			v.Set(subFloor(now, was))
		case f.Kind == Peak && now <= was:
			v.Clear()
		}
	}
}

// Counter returns a counter of j for a difference: as it was read, or zero while the job is pending. The counters of
// a new cgroup start at zero.
func (j *JobReading) Counter(v Opt[uint64]) Opt[uint64] {
	if j.Phase == JobPending && !v.Valid() {
		return Some[uint64](0)
	}
	return v
}

// MemUsed returns the memory of the job without page cache and reclaimable slab, in bytes.
func (j *JobReading) MemUsed() Opt[uint64] {
	current, cached, ok := Both(j.MemCurrent, j.CachedAll())
	if !ok {
		return None[uint64]()
	}
	return Some(subFloor(current, cached))
}

// CachedAll returns the page cache of the job, with reclaimable slab if the kernel reports it, in bytes.
func (j *JobReading) CachedAll() Opt[uint64] {
	return Map(j.File, func(file uint64) uint64 { return file + j.SlabReclaimable.Or(0) })
}

// isUnseen reports whether the cgroup was not read, and no older reading was carried over.
func (j *JobReading) isUnseen() bool {
	return j.Phase == JobGone && !j.CPUUsage.Valid() && !j.MemCurrent.Valid() && !j.MemLimit.Valid()
}

// memFree returns how much more memory the job can use: up to its limit, or the free memory of the node if it has
// none. It is absent if the limit is not known.
func (j *JobReading) memFree(node *NodeReading) Opt[uint64] {
	if j.isUnseen() {
		return None[uint64]()
	}
	limit, ok := j.MemLimit.Get()
	if !ok || limit == Unlimited {
		return node.MemFree
	}
	return Map(j.MemCurrent, func(current uint64) uint64 { return subFloor(limit, current) })
}

// TicksPerSecond is USER_HZ, the unit of /proc/stat and /proc/<pid>/stat. The
// kernel fixes it at 100 in its interface on every platform that rt runs on.
const TicksPerSecond = 100

// CPUTimes are the tick counters of one cpu line of /proc/stat, in USER_HZ.
// Guest time is already part of User and Nice.
type CPUTimes struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal uint64
}

// Total is the sum of all counters, in ticks.
func (t CPUTimes) Total() uint64 { return t.Busy() + t.Idle + t.IOWait }

// Busy is the sum of all counters except Idle and IOWait, in ticks.
func (t CPUTimes) Busy() uint64 {
	return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
}

// NodeReading holds what was read of the node as a whole.
type NodeReading struct {
	CPU       Opt[CPUTimes] // /proc/stat, line "cpu"
	CPUs      Opt[uint64]   // online logical CPUs: the lines "cpu<N>" of /proc/stat
	Processes Opt[uint64]   // numeric entries of /proc

	// /proc/meminfo, bytes
	MemTotal, MemFree, MemAvailable       Opt[uint64]
	Buffers, Cached, SReclaimable, Shmem  Opt[uint64]
	Active, Inactive, SwapTotal, SwapFree Opt[uint64]
	HugeFree                              Opt[uint64] // free huge pages of the default size

	// Sums over the interfaces of Wire, bytes. They grow by what each interface counted while it existed, and do not
	// jump or fall when an interface comes, goes or resets. /proc/net/dev.
	NetRxBytes, NetTxBytes Opt[uint64]
	// Sums over the leaf block devices (not dm, md, loop or partitions), bytes,
	// computed in the same way. /proc/diskstats sectors x 512.
	DiskReadBytes, DiskWriteBytes Opt[uint64]
	// Sums over the mounted file systems, each device once, bytes. statvfs(3):
	// f_blocks and f_bavail times the fragment size.
	SpaceTotal, SpaceAvailable Opt[uint64]

	// The number of GPUs, 0 if the node has none; absent if a driver did not list them all.
	GPUs Opt[uint64]
	// Sums over the GPUs: fractional GPUs in use, bytes of their memory in use, how many were not
	// idle. Absent if one GPU was not read, and without a GPU.
	GPUUsage    Opt[float64]
	GPUVRAMUsed Opt[uint64]
	GPUUtilized Opt[uint64]

	// Load1 is the load of the last minute in hundredths, as /proc/loadavg prints it.
	Load1 Opt[uint64]
	// CPUFreq is the mean of the online CPUs' scaling_cur_freq in kHz.
	CPUFreq Opt[uint64]
	// ReadBoot is the Boot at which another tracker on this node read the node's values and lists (CPUs, Nets, Disks,
	// Mounts, Fabrics, RemoteFS). 0: this tracker read all. Rates of the node are computed with its difference.
	ReadBoot int64
}

// MemUsed is MemTotal - MemFree - Buffers - (Cached + SReclaimable), never below
// zero, in bytes; absent if one of them is.
func (n *NodeReading) MemUsed() Opt[uint64] {
	total, free, ok1 := Both(n.MemTotal, n.MemFree)
	buffers, cached, ok2 := Both(n.Buffers, n.CachedAll())
	if !ok1 || !ok2 {
		return None[uint64]()
	}
	return Some(subFloor(total, free+buffers+cached))
}

// MemInUse is MemUsed without the free huge pages: no process uses them, but the kernel does not count them as
// free.
func (n *NodeReading) MemInUse() Opt[uint64] {
	return Map(n.MemUsed(), func(used uint64) uint64 { return subFloor(used, n.HugeFree.Or(0)) })
}

// CachedAll is Cached + SReclaimable in bytes; absent if one of them is.
func (n *NodeReading) CachedAll() Opt[uint64] {
	cached, slab, ok := Both(n.Cached, n.SReclaimable)
	if !ok {
		return None[uint64]()
	}
	return Some(cached + slab)
}

// CPUReading holds the counters of one logical CPU.
type CPUReading struct {
	CPU   int // its number, as in /sys/devices/system/cpu/cpu<N>
	Times CPUTimes
}

// ProcessReading holds what was read of one process of the job. The snapshot contains the
// processes that used most CPU time or memory. Arguments of processes are never read.
type ProcessReading struct {
	PID   uint64
	Start uint64 // ticks after boot, /proc/<pid>/stat field 22: with PID it identifies the process
	Comm  string // /proc/<pid>/comm: at most 15 bytes, valid UTF-8

	Step string      // as in StepReading; empty if unknown
	Task Opt[uint64] // the task's number, as in StepReading

	UserTicks, SystemTicks Opt[uint64] // its own, in USER_HZ, /proc/<pid>/stat
	RSS                    Opt[uint64] // bytes, /proc/<pid>/statm
	PSS                    Opt[uint64] // bytes, smaps_rollup; it is expensive and therefore read for some snapshots only
	Threads                Opt[uint64]
	ReadBytes, WriteBytes  Opt[uint64] // /proc/<pid>/io, its reaped children included
}

// TreeReading holds what was read of a process tree: a root pid and its
// descendants (/proc/<pid>/stat).
type TreeReading struct {
	// CPU time of the tree in USER_HZ, including its ended processes. It never falls.
	CPUUserTicks, CPUSystemTicks Opt[uint64]
	// Descendants, without the root. Absent if the root does not exist.
	Children Opt[uint64]
	// RSS is the sum of the resident set sizes in bytes; shared pages count in each.
	RSS Opt[uint64]
	// PSS is the sum of the proportional set sizes in bytes (/proc/<pid>/smaps_rollup): shared
	// pages count once. It is expensive, so some readings do not have it.
	PSS Opt[uint64]

	// ReadBytes and WriteBytes are what the processes read from and wrote to storage, with the ended ones
	// (/proc/<pid>/io). They never fall and are a lower bound.
	ReadBytes, WriteBytes Opt[uint64]

	ticksBoot int64 // as JobReading.usageBoot, for the ticks
}

// Memory returns the memory of the tree in bytes: PSS, or the most that it can be. The latter is RSS, or
// the memory of the node that is not free, if that is less: shared pages cannot be in use twice. A tree of zombies has none.
func (t *TreeReading) Memory(node *NodeReading) (bytes Opt[uint64], isAtMost bool) {
	if t.PSS.Valid() {
		return t.PSS, false
	}
	most := t.RSS
	rss, isRead := most.Get()
	total, free, isNodeRead := Both(node.MemTotal, node.MemFree)
	if isRead && isNodeRead {
		most.Set(min(rss, subFloor(total, free)))
	}
	return most, isRead && rss > 0
}

// StepReading holds what was read of the cgroup of one step on this node, or of one of its
// tasks. A step that has ended is in the first snapshot after its end, with its last
// figures, and in no later one.
type StepReading struct {
	Step  string      // "0", "batch", "extern", "interactive"
	Task  Opt[uint64] // the task's number on this node (v1; v2 with Slurm 22.05) or in the step (v2 with 24.11); absent for the step as a whole
	Ended bool        // its cgroup is gone: these are its last figures

	// As in JobReading: without slurmstepd.
	CPUUsage, CPUUser, CPUSystem           Opt[uint64] // microseconds
	MemCurrent, MemPeak, Anon, File, Shmem Opt[uint64] // bytes
	PageFaults, MajorFaults, EventsOOMKill Opt[uint64] // counts
	Pids                                   Opt[uint64] // processes
	IOReadBytes, IOWriteBytes              Opt[uint64] // bytes, if the controller is on
}
