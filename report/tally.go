package report

import "github.com/resource-tracker/rt"

// total adds up the growth of one counter. A reading below the previous one restarts it and
// adds nothing, because the interval is absent.
type total struct {
	last   rt.Opt[uint64]
	sum    uint64
	spans  bool // a difference was taken
	origin rt.Opt[uint64]
}

// add takes the next reading. If it is absent, the next difference spans the gap.
func (t *total) add(v rt.Opt[uint64]) {
	cur, ok := v.Get()
	if !ok {
		return
	}
	last, known := t.last.Get()
	if !known {
		last, known = t.origin.Get()
	}
	if known && cur >= last {
		t.sum += cur - last
		t.spans = true
	}
	t.last = v
}

func (t *total) value() rt.Opt[uint64] {
	if !t.spans {
		return rt.None[uint64]()
	}
	return rt.Some(t.sum)
}

// scaled returns the sum times unit.
func (t *total) scaled(unit float64) rt.Opt[float64] {
	if !t.spans {
		return rt.None[float64]()
	}
	return rt.Some(float64(t.sum) * unit)
}

// highest keeps the largest reading of a gauge.
type highest struct{ rt.Opt[uint64] }

func (h *highest) add(v rt.Opt[uint64]) {
	if x, ok := v.Get(); ok && x >= h.Or(0) {
		h.Set(x)
	}
}

func minus(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	x, ok := a.Get()
	if !ok || !b.Valid() {
		return rt.None[uint64]()
	}
	return rt.Some(x - min(x, b.Or(0)))
}

// usage is what one scope used, in the units of its counters.
type usage struct {
	cpu, user, system, throttled total
	read, write, oomKills        total
	procRead, procWrite          total // as the processes counted
	stepd                        total // slurmstepd's CPU time
	faults, major                total
	stalls                       [6]total // some and full of CPU, memory, I/O
	peak, memory                 highest  // from the kernel, from the readings; bytes
	intervalPeak                 highest  // from the kernel, for each interval; bytes
	threads                      highest
	anon, shared, file           highest // bytes
	processes                    highest
	limit                        rt.Opt[uint64] // bytes, the last one that was read
}

// totals are the counters of a job's cgroup since its creation.
func (u *usage) totals() []*total {
	list := []*total{&u.cpu, &u.user, &u.system, &u.throttled, &u.read, &u.write, &u.oomKills,
		&u.procRead, &u.procWrite, &u.stepd, &u.faults, &u.major}
	for i := range u.stalls {
		list = append(list, &u.stalls[i])
	}
	return list
}

func (u *usage) startAtZero() {
	for _, t := range u.totals() {
		if !t.last.Valid() {
			t.origin.Set(0)
		}
	}
}

func (u *usage) addJob(j *rt.JobReading) {
	if j.Phase == rt.JobPending {
		u.startAtZero()
		if j.ProcWriteBytes.Valid() { // the job may never get a cgroup
			u.procRead.add(j.ProcReadBytes)
			u.procWrite.add(j.ProcWriteBytes)
		}
		return
	}
	u.cpu.add(j.CPUUsage)
	u.user.add(j.CPUUser)
	u.system.add(j.CPUSystem)
	u.throttled.add(j.CPUThrottled)
	u.read.add(j.IOReadBytes)
	u.write.add(j.IOWriteBytes)
	u.oomKills.add(j.EventsOOMKill)
	u.procRead.add(j.ProcReadBytes)
	u.procWrite.add(j.ProcWriteBytes)
	u.stepd.add(j.StepdCPUUsage)
	u.faults.add(j.PageFaults)
	u.major.add(j.MajorFaults)
	for i, v := range [...]rt.Opt[uint64]{j.CPUStallSome, j.CPUStallFull, j.MemStallSome, j.MemStallFull, j.IOStallSome, j.IOStallFull} {
		u.stalls[i].add(v)
	}
	u.intervalPeak.add(j.MemIntervalPeak)
	u.threads.add(j.Threads)
	u.peak.add(j.MemPeak)
	u.memory.add(j.MemCurrent)
	u.anon.add(j.Anon)
	u.shared.add(j.Shmem)
	u.file.add(minus(j.File, j.Shmem))
	u.processes.add(j.Pids)
	if j.MemLimit.Valid() {
		u.limit = j.MemLimit
	}
}

func (u *usage) addTree(t *rt.TreeReading) {
	user, ok1 := t.CPUUserTicks.Get()
	system, ok2 := t.CPUSystemTicks.Get()
	if ok1 && ok2 {
		u.cpu.add(rt.Some(user + system))
	}
	u.user.add(t.CPUUserTicks)
	u.system.add(t.CPUSystemTicks)
	if t.RSS.Or(0) > 0 { // a process that has ended has no memory any more
		u.memory.add(t.RSS)
	}
	if children, ok := t.Children.Get(); ok {
		u.processes.add(rt.Some(children + 1))
	}
}

func (u *usage) addNode(n *rt.NodeReading) {
	if c, ok := n.CPU.Get(); ok {
		u.cpu.add(rt.Some(c.Busy()))
		u.user.add(rt.Some(c.User + c.Nice))
		u.system.add(rt.Some(c.System))
	}
	u.read.add(n.DiskReadBytes)
	u.write.add(n.DiskWriteBytes)
	u.memory.add(n.MemUsed())
	u.shared.add(n.Shmem)
	u.file.add(minus(n.Cached, n.Shmem))
	u.processes.add(n.Processes)
}
