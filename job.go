package rt

import "math"

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

	// Processes of the job: the entries of every cgroup.procs below it, without those of Slurm
	// itself (pids.current would count threads). With Slurm 26.05 and v1 slurmstepd is among them,
	// and a reading that does not scan the processes counts it.
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

	// Sums over the job's processes, including the last values of those that have ended:
	// read_bytes and write_bytes of /proc/<pid>/io, and the two kinds of context
	// switches of /proc/<pid>/status, which are those of the first thread.
	ProcReadBytes, ProcWriteBytes          Opt[uint64]
	VoluntarySwitches, InvoluntarySwitches Opt[uint64]

	// usageBoot is the Boot of the older snapshot that CPUUsage was inherited
	// from, so that the rate over the gap is right; 0 if it was read here.
	usageBoot int64
	// ioFromZero: the job was pending before, so that an absent I/O counter started at
	// zero. The counter itself stays absent: the controller may never be enabled.
	ioFromZero bool
}

// CarryOver fills the figures of some kinds that are absent in j with those of an older
// reading: Counter for the gap before j, AnyKind for a last reading, because the controllers of a
// job disappear one after another.
func (j *JobReading) CarryOver(older *JobReading, kinds Kind) {
	carryOver(JobFigures[:], j, older, kinds)
}

// AddEnded adds an earlier cgroup of the job, which is gone: counters are added, the higher
// peak is kept, and j takes over the limit if it has none.
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

// counter returns a counter of j for a difference: as it was read, or zero while the job is
// pending, because the counters of a new cgroup start at zero.
func (j *JobReading) counter(v Opt[uint64]) Opt[uint64] {
	if j.Phase == JobPending && !v.Valid() {
		return Some[uint64](0)
	}
	return v
}

// MemUsed returns the memory of the job without page cache and reclaimable slab, in bytes.
func (j *JobReading) MemUsed() Opt[uint64] {
	current, cached, ok := both(j.MemCurrent, j.CachedAll())
	if !ok {
		return None[uint64]()
	}
	return Some(subFloor(current, cached))
}

// CachedAll returns the page cache of the job, with reclaimable slab if the kernel reports it, in bytes.
func (j *JobReading) CachedAll() Opt[uint64] {
	file, ok := j.File.Get()
	if !ok {
		return None[uint64]()
	}
	return Some(file + j.SlabReclaimable.Or(0))
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
	current, ok := j.MemCurrent.Get()
	if !ok {
		return None[uint64]()
	}
	return Some(subFloor(limit, current))
}
