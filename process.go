package rt

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
	total, free, isNodeRead := both(node.MemTotal, node.MemFree)
	if isRead && isNodeRead {
		most.Set(min(rss, subFloor(total, free)))
	}
	return most, isRead && rss > 0
}
