package rt

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
