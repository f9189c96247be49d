package rt

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

	// Sums over the interfaces of Wire, bytes. They grow by what each interface
	// counted while it existed: an interface that appears, disappears or resets does
	// not make them jump or fall. /proc/net/dev.
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
	// ReadBoot is the Boot at which another tracker on this node read the values of the
	// node and the lists CPUs, Nets, Disks, Mounts, Fabrics and RemoteFS; 0 if this
	// tracker read them itself. Rates of the node are computed with its difference.
	ReadBoot int64
}

// MemUsed is MemTotal - MemFree - Buffers - (Cached + SReclaimable), never below
// zero, in bytes; absent if one of them is.
func (n *NodeReading) MemUsed() Opt[uint64] {
	total, free, ok1 := both(n.MemTotal, n.MemFree)
	buffers, cached, ok2 := both(n.Buffers, n.CachedAll())
	if !ok1 || !ok2 {
		return None[uint64]()
	}
	return Some(subFloor(total, free+buffers+cached))
}

// MemInUse is MemUsed without the free huge pages: no process uses them, but the kernel does not count them as
// free.
func (n *NodeReading) MemInUse() Opt[uint64] {
	used := n.MemUsed()
	if v, ok := used.Get(); ok {
		used.Set(subFloor(v, n.HugeFree.Or(0)))
	}
	return used
}

// CachedAll is Cached + SReclaimable in bytes; absent if one of them is.
func (n *NodeReading) CachedAll() Opt[uint64] {
	cached, slab, ok := both(n.Cached, n.SReclaimable)
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
