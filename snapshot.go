package rt

import "math"

// Unlimited is the value of a limit that the kernel reports as "max".
const Unlimited uint64 = math.MaxUint64

// TicksPerSecond is USER_HZ, the unit of /proc/stat and /proc/<pid>/stat. The
// kernel fixes it at 100 in its interface on every platform that rt runs on.
const TicksPerSecond = 100

// Reason says why a snapshot was taken.
type Reason uint8

// The reasons of a snapshot. They are stored by number: append only.
const (
	ReasonTick     Reason = iota // the interval was over
	ReasonFirst                  // the tracker's first reading, before the job's first step
	ReasonAppeared               // the job's cgroup appeared
	ReasonLast                   // the last reading: the cgroup emptied or the command ended
	ReasonStop                   // the tracker was told to stop while the job still ran
)

// String returns the reason's name as the spool's views show it.
func (r Reason) String() string {
	names := [...]string{"tick", "first", "appeared", "last", "stop"}
	if int(r) < len(names) {
		return names[r]
	}
	return "unknown"
}

// JobPhase says what a snapshot's job reading was taken of.
type JobPhase uint8

// The phases of a job on its node. They are stored by number: append only.
const (
	// JobNone: the run has no job cgroup (a wrapped command, a whole machine).
	JobNone JobPhase = iota
	// JobPending: the cgroup was looked for and does not exist yet. No process of
	// the job has run, so its counters, absent in this snapshot, start at zero.
	JobPending
	// JobPresent: the cgroup exists and was read.
	JobPresent
	// JobGone: the cgroup has been removed; nothing more can be read of it.
	JobGone
)

// String returns the phase's name as the spool's views show it.
func (p JobPhase) String() string {
	names := [...]string{"none", "pending", "present", "gone"}
	if int(p) < len(names) {
		return names[p]
	}
	return "unknown"
}

// Snapshot is what was read at one instant. Counters are cumulative, as the
// kernel gives them. A collector reuses one Snapshot for all its readings.
type Snapshot struct {
	Seq    int64  // 1, 2, 3, ... without a gap within a run
	Wall   int64  // nanoseconds since the epoch, CLOCK_REALTIME
	Boot   int64  // nanoseconds since boot, CLOCK_BOOTTIME; intervals are measured with it
	Reason Reason // why it was taken

	Node NodeReading // scope node
	Job  JobReading  // scope job: the job's cgroup on this node
	Tree TreeReading // scope job: a process tree, where a root pid was given

	CPUs   []CPUReading   // per logical CPU, online ones only, ascending
	Nets   []NetReading   // per interface, without lo
	Disks  []DiskReading  // per block device, without partitions
	Mounts []MountReading // per mounted file system, each device once
	GPUs   []GPUReading   // per GPU or MIG instance
}

// CPUTimes are the tick counters of one cpu line of /proc/stat, in USER_HZ.
// Guest time is already part of User and Nice.
type CPUTimes struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal uint64
}

// Total is the sum of all counters, in ticks.
func (t CPUTimes) Total() uint64 { return t.Busy() + t.Idle + t.IOWait }

// Busy is the sum of all counters but Idle and IOWait, in ticks.
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

	// Sums over the interfaces but lo, bytes. They grow by what each interface
	// counted while it was there: an interface that comes, goes or resets never
	// makes them jump or fall. /proc/net/dev.
	NetRxBytes, NetTxBytes Opt[uint64]
	// Sums over the leaf block devices (not dm, md, loop or partitions), bytes,
	// made in the same way. /proc/diskstats sectors x 512.
	DiskReadBytes, DiskWriteBytes Opt[uint64]
	// Sums over the mounted file systems, each device once, bytes. statvfs(3):
	// f_blocks and f_bavail times the fragment size.
	SpaceTotal, SpaceAvailable Opt[uint64]

	// Sums over the GPUs: fractional GPUs in use, bytes of their memory in use,
	// how many were not idle. Zero where the node has no GPU.
	GPUUsage    Opt[float64]
	GPUVRAMUsed Opt[uint64]
	GPUUtilized Opt[uint64]
}

// MemUsed is MemTotal - MemFree - Buffers - (Cached + SReclaimable), never below
// zero, in bytes; absent where one of them is.
func (n *NodeReading) MemUsed() Opt[uint64] {
	total, ok1 := n.MemTotal.Get()
	free, ok2 := n.MemFree.Get()
	buffers, ok3 := n.Buffers.Get()
	cached, ok4 := n.CachedAll().Get()
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return None[uint64]()
	}
	return Some(subFloor(total, free+buffers+cached))
}

// CachedAll is Cached + SReclaimable in bytes; absent where one of them is.
func (n *NodeReading) CachedAll() Opt[uint64] {
	cached, ok1 := n.Cached.Get()
	slab, ok2 := n.SReclaimable.Get()
	if !ok1 || !ok2 {
		return None[uint64]()
	}
	return Some(cached + slab)
}

// JobReading holds what was read of the job's cgroup on this node.
type JobReading struct {
	Phase JobPhase

	// Microseconds of CPU time. v2: cpu.stat usage_usec, user_usec, system_usec,
	// throttled_usec. v1: cpuacct.usage, cpuacct.usage_user, cpuacct.usage_sys
	// (nanoseconds there; user and system are sampled by tick), cpu.stat throttled_time.
	CPUUsage, CPUUser, CPUSystem, CPUThrottled Opt[uint64]

	// Bytes. v2: memory.current, memory.peak, memory.max, memory.swap.current.
	// v1: memory.usage_in_bytes, memory.max_usage_in_bytes, the hierarchical limit.
	// A limit of "max" is Unlimited.
	MemCurrent, MemPeak, MemLimit, Swap Opt[uint64]
	// Bytes of memory.stat. v2: anon, file, shmem, kernel, slab_reclaimable,
	// active_anon + active_file, inactive_anon + inactive_file. v1: total_rss,
	// total_cache, total_shmem, absent, absent, total_active_*, total_inactive_*.
	Anon, File, Shmem, Kernel, SlabReclaimable, Active, Inactive Opt[uint64]
	// Counts of memory.stat: pgfault (minor and major), pgmajfault.
	PageFaults, MajorFaults Opt[uint64]
	// Counts of memory.events. v1: absent, memory.failcnt, absent, oom_kill of memory.oom_control.
	EventsHigh, EventsMax, EventsOOM, EventsOOMKill Opt[uint64]

	// Processes of the job: the entries of every cgroup.procs below it, without the
	// resource manager's own (pids.current would count threads).
	Pids Opt[uint64]
	// Bytes of io.stat (v2) or blkio.throttle.io_service_bytes_recursive (v1), where the controller is on.
	IOReadBytes, IOWriteBytes Opt[uint64]

	// usageBoot is the Boot of the older snapshot that CPUUsage was inherited
	// from, so that the rate over the gap is right; 0 where it was read here.
	usageBoot int64
}

// counter is a cumulative field of j as Derive takes differences of it: as read,
// or zero while the job is pending, because the counters of a cgroup that is yet
// to be made start there.
func (j *JobReading) counter(v Opt[uint64]) Opt[uint64] {
	if j.Phase == JobPending {
		return Some[uint64](0)
	}
	return v
}

// InheritCounters fills the cumulative fields that are absent in s with what an
// older snapshot had, so that the next difference spans the gap and no total is
// lost. Gauges stay absent.
func (s *Snapshot) InheritCounters(older *Snapshot) {
	if !s.Node.CPU.Valid() {
		s.Node.CPU = older.Node.CPU
	}
	if !s.Job.CPUUsage.Valid() {
		s.Job.usageBoot = older.usageBoot()
	}
	if !s.Tree.CPUUserTicks.Valid() || !s.Tree.CPUSystemTicks.Valid() {
		s.Tree.CPUUserTicks, s.Tree.CPUSystemTicks = older.Tree.CPUUserTicks, older.Tree.CPUSystemTicks
		s.Tree.ticksBoot = older.ticksBoot()
	}
	job := older.Job
	if job.Phase == JobPending {
		for _, p := range [...]*Opt[uint64]{&job.CPUUsage, &job.CPUUser, &job.CPUSystem, &job.IOReadBytes, &job.IOWriteBytes} {
			p.Set(0)
		}
	}
	pairs := [...][2]*Opt[uint64]{
		{&s.Node.NetRxBytes, &older.Node.NetRxBytes}, {&s.Node.NetTxBytes, &older.Node.NetTxBytes},
		{&s.Node.DiskReadBytes, &older.Node.DiskReadBytes}, {&s.Node.DiskWriteBytes, &older.Node.DiskWriteBytes},
		{&s.Job.CPUUsage, &job.CPUUsage}, {&s.Job.CPUUser, &job.CPUUser},
		{&s.Job.CPUSystem, &job.CPUSystem},
		{&s.Job.IOReadBytes, &job.IOReadBytes}, {&s.Job.IOWriteBytes, &job.IOWriteBytes},
	}
	for _, p := range pairs {
		if !p[0].Valid() {
			*p[0] = *p[1]
		}
	}
}

// usageBoot is when Job.CPUUsage was read: now, or when it was inherited from.
func (s *Snapshot) usageBoot() int64 {
	if s.Job.usageBoot != 0 {
		return s.Job.usageBoot
	}
	return s.Boot
}

// ticksBoot is the same for the ticks of Tree.
func (s *Snapshot) ticksBoot() int64 {
	if s.Tree.ticksBoot != 0 {
		return s.Tree.ticksBoot
	}
	return s.Boot
}

// Inherit fills what is absent in j with what o had. It joins the parts of a last
// reading whose controllers vanished one after another.
func (j *JobReading) Inherit(o *JobReading) {
	mine, theirs := j.fields(), o.fields()
	for i := range mine {
		if !mine[i].Valid() {
			*mine[i] = *theirs[i]
		}
	}
}

func (j *JobReading) fields() [24]*Opt[uint64] {
	return [...]*Opt[uint64]{
		&j.CPUUsage, &j.CPUUser, &j.CPUSystem, &j.CPUThrottled,
		&j.MemCurrent, &j.MemPeak, &j.MemLimit, &j.Swap,
		&j.Anon, &j.File, &j.Shmem, &j.Kernel, &j.SlabReclaimable, &j.Active, &j.Inactive,
		&j.PageFaults, &j.MajorFaults,
		&j.EventsHigh, &j.EventsMax, &j.EventsOOM, &j.EventsOOMKill,
		&j.Pids, &j.IOReadBytes, &j.IOWriteBytes,
	}
}

// TreeReading holds what was read of a process tree: a root pid and its
// descendants (/proc/<pid>/stat).
type TreeReading struct {
	// CPU time of the tree in USER_HZ, with what its ended processes had used. It never falls.
	CPUUserTicks, CPUSystemTicks Opt[uint64]
	// Descendants, without the root. Absent when the root is not there.
	Children Opt[uint64]
	// RSS is the sum of the resident set sizes in bytes; shared pages count in each.
	RSS Opt[uint64]

	ticksBoot int64 // as JobReading.usageBoot, for the ticks
}

// CPUReading holds the counters of one logical CPU.
type CPUReading struct {
	CPU   int // its number, as in /sys/devices/system/cpu/cpu<N>
	Times CPUTimes
}

// NetReading holds the counters of one interface.
type NetReading struct {
	Name string // kernel name

	RxBytes, TxBytes Opt[uint64] // /proc/net/dev, since boot or since it came up

	// Identity and link state, /sys/class/net/<name>/.
	MAC, Driver, OperState string      // empty when not reported
	SpeedMbps              Opt[int64]  // Mbit/s; -1 when the link does not report it
	MTU                    Opt[uint64] // bytes
}

// DiskReading holds the counters of one block device.
type DiskReading struct {
	Name string // kernel name
	Leaf bool   // false for dm, md, loop, zram: their I/O is already counted below them

	ReadBytes, WriteBytes Opt[uint64] // /proc/diskstats sectors x 512, since boot

	// Identity, /sys/block/<name>/.
	Model, Vendor, Serial string      // empty when not reported
	Type                  string      // "nvme", "ssd", "hdd"; empty when unknown
	Capacity              Opt[uint64] // bytes, size x 512
}

// MountReading holds the space of one mounted file system, statvfs(3).
type MountReading struct {
	Disk       string // kernel name of the block device; empty when there is none
	MountPoint string
	FSType     string
	// Bytes: f_blocks, f_bavail (to an unprivileged user) and f_blocks - f_bfree, times the fragment size.
	Total, Available, Used uint64
}

// GPUReading holds what a driver said of one GPU or MIG instance.
type GPUReading struct {
	UUID string // vendor UUID; the PCI address for AMD
	Name string // product name
	Type string // "GPU", "NPU", "TPU"
	Host string // identifier on this host

	Utilization         Opt[float64] // percent of time busy, 0..100
	VRAMTotal, VRAMUsed Opt[uint64]  // bytes
	Temperature         Opt[uint64]  // degrees Celsius
	Power               Opt[float64] // watts
	Frequency           Opt[uint64]  // MHz
	Cores               Opt[uint64]
	Detail              map[string]string // vendor extras: driver version, PCI bus id
}

func subFloor(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
