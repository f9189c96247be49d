package rt

// JobReading holds what was read of the job's cgroup on this node.
type JobReading struct {
	Phase JobPhase

	// Microseconds of CPU time of the job's own processes. v2: cpu.stat usage_usec, user_usec, system_usec,
	// throttled_usec. v1: cpuacct.usage, cpuacct.usage_user, cpuacct.usage_sys
	// (nanoseconds there; user and system are sampled by tick), cpu.stat throttled_time.
	// In v2 the directory holds slurmstepd too: what it used is left out here.
	CPUUsage, CPUUser, CPUSystem, CPUThrottled Opt[uint64]
	// StepdCPUUsage is the CPU time of slurmstepd in the job's cgroup (v2:
	// step_<x>/slurm), in microseconds; absent where Slurm keeps it elsewhere.
	StepdCPUUsage Opt[uint64]

	// Bytes. v2: memory.current, memory.peak, memory.max, memory.swap.current.
	// v1: memory.usage_in_bytes, memory.max_usage_in_bytes, the hierarchical limit.
	// A limit of "max" is Unlimited.
	MemCurrent, MemPeak, MemLimit, Swap Opt[uint64]
	// MemIntervalPeak is the highest MemCurrent since the snapshot before, in bytes:
	// memory.peak on a descriptor that is reset by each reading (Linux 6.12).
	MemIntervalPeak Opt[uint64]
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

	// Threads: pids.current.
	Threads Opt[uint64]
	// Microseconds in which some, or all, of the job's tasks waited for a CPU, for
	// memory, for I/O: total= of cpu.pressure, memory.pressure, io.pressure (v2).
	CPUStallSome, CPUStallFull, MemStallSome, MemStallFull, IOStallSome, IOStallFull Opt[uint64]
	// HugeTLB is the sum of hugetlb.<size>.current (v1 .usage_in_bytes), in bytes.
	HugeTLB Opt[uint64]
	// Counts of rdma.current, over all devices.
	RDMAHandles, RDMAObjects Opt[uint64]

	// Sums over the job's processes, with what those that ended had when last seen:
	// read_bytes and write_bytes of /proc/<pid>/io, and the two kinds of context
	// switches of /proc/<pid>/status, of each process's first thread.
	ProcReadBytes, ProcWriteBytes          Opt[uint64]
	VoluntarySwitches, InvoluntarySwitches Opt[uint64]

	// usageBoot is the Boot of the older snapshot that CPUUsage was inherited
	// from, so that the rate over the gap is right; 0 where it was read here.
	usageBoot int64
	// ioFromZero: the job was pending before, so that I/O which is absent has been
	// counted from zero. It is no zero by itself: the controller may never be there.
	ioFromZero bool
}

// counter is a cumulative field of j as Derive takes differences of it: as read,
// or zero while the job is pending, because the counters of a cgroup that is yet
// to be made start there; a job that never gets one has those of its processes.
func (j *JobReading) counter(v Opt[uint64]) Opt[uint64] {
	if j.Phase == JobPending && !v.Valid() {
		return Some[uint64](0)
	}
	return v
}

// InheritCounters fills the cumulative fields that are absent in s with what an
// older snapshot had, so that the next difference spans the gap and no total is
// lost. Gauges stay absent. The lists are left alone: see Absorb.
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
	if older.Job.Phase == JobPending {
		for _, p := range [...]*Opt[uint64]{&s.Job.CPUUsage, &s.Job.CPUUser, &s.Job.CPUSystem} {
			p.Set(p.Or(0))
		}
	}
	s.Job.ioFromZero = s.Job.ioFromZero || older.Job.ioFromZero || older.Job.Phase == JobPending
	carryOver(NodeFigures[:], &s.Node, &older.Node, Counter)
	s.Job.CarryOver(&older.Job, Counter)
}

// Absorb makes s stand for an older snapshot as well, which is dropped: s inherits
// its counters, the peak of its interval, and what no other snapshot has of steps
// and of what is counted in lists. The lists of s must be its own.
func (s *Snapshot) Absorb(older *Snapshot) {
	s.InheritCounters(older)
	if peak, ok := s.Job.MemIntervalPeak.Get(); ok {
		s.Job.MemIntervalPeak.Set(max(peak, older.Job.MemIntervalPeak.Or(0)))
	}
	s.absorbSteps(older)
	s.absorbEnergy(older)
	s.absorbPerf(older)
}

func inherit(mine, older *Opt[uint64]) {
	if !mine.Valid() {
		*mine = *older
	}
}

// absorbSteps keeps the last figures of steps that have ended.
func (s *Snapshot) absorbSteps(older *Snapshot) {
	for i := range older.Steps {
		o := &older.Steps[i]
		same := func(t *StepReading) bool { return t.Step == o.Step && t.Task == o.Task }
		if o.Ended && find(s.Steps, i, same) == nil {
			s.Steps = append(s.Steps, *o)
		}
	}
}

func (s *Snapshot) absorbEnergy(older *Snapshot) {
	for i := range older.Energy {
		o := &older.Energy[i]
		same := func(e *EnergyReading) bool { return e.Source == o.Source && e.Domain == o.Domain && e.Kind == o.Kind }
		if e := find(s.Energy, i, same); e != nil {
			inherit(&e.Energy, &o.Energy)
		} else if o.Energy.Valid() {
			s.Energy = append(s.Energy, *o)
			s.Energy[len(s.Energy)-1].Power.Clear()
		}
	}
}

func (s *Snapshot) absorbPerf(older *Snapshot) {
	for i := range older.Perf {
		o := &older.Perf[i]
		same := func(p *PerfReading) bool { return p.Group == o.Group && p.CPU == o.CPU && p.Event == o.Event }
		if p := find(s.Perf, i, same); p == nil {
			s.Perf = append(s.Perf, *o)
		} else if !p.Value.Valid() {
			*p = *o
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

// CarryOver fills the figures of some kinds that are absent in j with those of an older
// reading: Counter for the gap before j, AnyKind for a last reading whose controllers vanished
// one after another.
func (j *JobReading) CarryOver(older *JobReading, kinds Kind) {
	carryOver(JobFigures[:], j, older, kinds)
}

// AddEnded adds an earlier cgroup of the job, which is gone: counters add up, of peaks the
// higher one is valid, and a limit is the earlier one's where j has none.
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

// StepReading holds what was read of the cgroup of one step, or of one task of it,
// on this node. One that has ended is in the first snapshot after its end, with
// its last figures, and in none after that.
type StepReading struct {
	Step  string      // "0", "batch", "extern", "interactive"
	Task  Opt[uint64] // the task's number: on this node (v1), as Slurm names its directory (v2); absent for the step as a whole
	Ended bool        // its cgroup is gone: these are its last figures

	// As in JobReading: without slurmstepd.
	CPUUsage, CPUUser, CPUSystem           Opt[uint64] // microseconds
	MemCurrent, MemPeak, Anon, File, Shmem Opt[uint64] // bytes
	PageFaults, MajorFaults, EventsOOMKill Opt[uint64] // counts
	Pids                                   Opt[uint64] // processes
	IOReadBytes, IOWriteBytes              Opt[uint64] // bytes, where the controller is on
}
