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
	Seq    int64  // ascending from 1 within a run; numbers are missing where snapshots were thinned
	Wall   int64  // nanoseconds since the epoch, CLOCK_REALTIME
	Boot   int64  // nanoseconds since boot, CLOCK_BOOTTIME; intervals are measured with it
	Reason Reason // why it was taken

	Node NodeReading // scope node
	Job  JobReading  // scope job: the job's cgroup on this node
	// GPU is what the job's GPUs did, or, where the run has no job, what the tree's
	// processes did on GPUs.
	GPU  GPUUse
	Tree TreeReading // scope job: a process tree, where a root pid was given

	CPUs   []CPUReading   // per logical CPU, online ones only, ascending
	Nets   []NetReading   // per interface, without lo
	Disks  []DiskReading  // per block device, without partitions
	Mounts []MountReading // per mounted file system, each device once
	GPUs   []GPUReading   // per GPU or MIG instance

	Fabrics  []FabricReading   // per port of InfiniBand or Omni-Path
	RemoteFS []RemoteFSReading // per Lustre or NFS mount

	Steps        []StepReading       // per step and task of the job that has a cgroup
	Procs        []ProcessReading    // the job's processes that used most
	GPUProcesses []GPUProcessReading // per process on a GPU: of the job or the tree
	Energy       []EnergyReading     // per domain that measures energy or power
	Perf         []PerfReading       // per hardware or software counter of the job
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

// GPUUse is what was used of some GPUs together.
type GPUUse struct {
	Usage    Opt[float64] // fractional GPUs in use
	VRAMUsed Opt[uint64]  // bytes
	Utilized Opt[uint64]  // how many were not idle
}

// Valid says whether anything of it was read.
func (u *GPUUse) Valid() bool { return u.Usage.Valid() || u.VRAMUsed.Valid() || u.Utilized.Valid() }

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

	// Load1 is the load of the last minute in hundredths, as /proc/loadavg prints it.
	Load1 Opt[uint64]
	// CPUFreq is the mean of the online CPUs' scaling_cur_freq in kHz.
	CPUFreq Opt[uint64]
	// ReadBoot is the Boot at which another tracker of this node read the node's
	// values, and the tables CPUs, Nets, Disks, Mounts, Fabrics and RemoteFS; 0 where this
	// tracker read them itself. Rates of the node are over the difference of it.
	ReadBoot int64
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
	InJob               Opt[bool]         // allocated to the job; absent where that is not known
	Detail              map[string]string // vendor extras: driver version, PCI bus id
}

func subFloor(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
