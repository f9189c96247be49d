package rt

import (
	"iter"
)

// Reason says why a snapshot was taken.
type Reason uint8

// The reasons of a snapshot. They are stored by number: append only.
const (
	ReasonTick     Reason = iota // the interval was over
	ReasonFirst                  // the tracker's first reading, before the job's first step
	ReasonAppeared               // the job's cgroup appeared
	ReasonLast                   // the last reading: the cgroup emptied or the command ended
	ReasonStop                   // the tracker got a signal to stop while the job still ran
)

// String returns the reason's name as the spool's views show it.
func (r Reason) String() string {
	return nameOf(int(r), "tick", "first", "appeared", "last", "stop")
}

func nameOf(n int, names ...string) string {
	if n < len(names) {
		return names[n]
	}
	return "unknown"
}

// Snapshot is what was read at one instant. Counters are cumulative, as in the kernel. A
// collector reuses one Snapshot for all its readings.
type Snapshot struct {
	Seq    int64  // ascending from 1 within a run; numbers are missing where snapshots were thinned
	Wall   int64  // nanoseconds since the epoch: CLOCK_REALTIME at the start of the run, advanced by Boot
	Boot   int64  // nanoseconds since boot, CLOCK_BOOTTIME; intervals are measured with it
	Reason Reason // why it was taken

	Node NodeReading // scope node
	Job  JobReading  // scope job: the job's cgroup on this node
	// GPU is the use of the job's GPUs or, in a run without a job, the use of GPUs by the
	// processes of the tree.
	GPU  GPUUse
	Tree TreeReading // scope job: a process tree, if a root pid was given

	CPUs   []CPUReading   // per logical CPU, online ones only, ascending
	Nets   []NetReading   // per interface, without lo
	Disks  []DiskReading  // per block device, without partitions
	Mounts []MountReading // per mounted file system, each device once
	GPUs   []GPUReading   // per GPU or MIG instance

	Fabrics  []FabricReading   // per port of InfiniBand or Omni-Path
	RemoteFS []RemoteFSReading // per Lustre or NFS mount

	Steps        []StepReading       // per step and task of the job that has a cgroup
	Procs        []ProcessReading    // the processes of the job that used most CPU time or memory
	GPUProcesses []GPUProcessReading // per process on a GPU: of the job or the tree
	Energy       []EnergyReading     // per domain that measures energy or power
	Perf         []PerfReading       // per hardware or software counter of the job
}

// InheritCounters fills the counters that are absent in s with the values of an older snapshot. So the next
// difference spans the gap and no total is lost. Gauges stay absent, and the lists stay as they are: see Absorb.
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

// Absorb prepares s to replace an older snapshot, which the caller drops. s takes over its counters, the peak of its
// interval, the last figures of ended steps, and the counters in lists. s must not share its lists with another
// snapshot.
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

// absorbSteps adds the steps that have ended in older: no later snapshot has them.
func (s *Snapshot) absorbSteps(older *Snapshot) {
	for i := range older.Steps {
		o := &older.Steps[i]
		same := func(t *StepReading) bool { return t.Step == o.Step && t.Task == o.Task }
		if o.Ended && Find(s.Steps, i, same) == nil {
			s.Steps = append(s.Steps, *o)
		}
	}
}

func (s *Snapshot) absorbEnergy(older *Snapshot) {
	for i := range older.Energy {
		o := &older.Energy[i]
		same := func(e *EnergyReading) bool { return e.Source == o.Source && e.Domain == o.Domain && e.Kind == o.Kind }
		if e := Find(s.Energy, i, same); e != nil {
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
		if p := Find(s.Perf, i, same); p == nil {
			s.Perf = append(s.Perf, *o)
		} else if !p.Value.Valid() {
			*p = *o
		}
	}
}

// usageBoot returns the boot time at which Job.CPUUsage was read, here or in the older snapshot
// that it was inherited from. While the job is pending, its CPU usage is known to be zero.
func (s *Snapshot) usageBoot() int64 {
	if s.Job.usageBoot != 0 && s.Job.Phase != JobPending {
		return s.Job.usageBoot
	}
	return s.Boot
}

// ticksBoot does the same for the ticks of Tree.
func (s *Snapshot) ticksBoot() int64 {
	if s.Tree.ticksBoot != 0 {
		return s.Tree.ticksBoot
	}
	return s.Boot
}

// CopyFrom makes s a copy of src. It reuses the memory of the lists of s. The details of
// GPUs are shared: they are never changed.
func (s *Snapshot) CopyFrom(src *Snapshot) {
	old := *s
	*s = *src
	s.CPUs = append(old.CPUs[:0], src.CPUs...)
	s.Nets = append(old.Nets[:0], src.Nets...)
	s.Disks = append(old.Disks[:0], src.Disks...)
	s.Mounts = append(old.Mounts[:0], src.Mounts...)
	s.GPUs = append(old.GPUs[:0], src.GPUs...)
	s.Fabrics = append(old.Fabrics[:0], src.Fabrics...)
	s.RemoteFS = append(old.RemoteFS[:0], src.RemoteFS...)
	s.Steps = append(old.Steps[:0], src.Steps...)
	s.Procs = append(old.Procs[:0], src.Procs...)
	s.GPUProcesses = append(old.GPUProcesses[:0], src.GPUProcesses...)
	s.Energy = append(old.Energy[:0], src.Energy...)
	s.Perf = append(old.Perf[:0], src.Perf...)
}

// Interval is the time between two consecutive snapshots. A counter that is absent in Prev has the value of an older
// snapshot. So the differences of a run's intervals add up to the difference of its ends.
type Interval struct{ Prev, Cur *Snapshot }

// Intervals iterates over the intervals of a run's snapshots, which may reuse one
// Snapshot. An Interval is valid until the next one. After an error there is no further
// interval.
func Intervals(snapshots iter.Seq2[*Snapshot, error]) iter.Seq2[Interval, error] {
	return func(yield func(Interval, error) bool) {
		var w Walk
		for cur, err := range snapshots {
			if err != nil {
				yield(Interval{}, err)
				return
			}
			if prev := w.Step(cur); prev != nil && !yield(Interval{prev, cur}, nil) {
				return
			}
		}
	}
}

// Walk is the push version of Intervals: the caller feeds snapshots one at a time. The zero
// value is ready to use.
type Walk struct {
	last, before *Snapshot // nil before the first step
}

// Clone returns a walk that continues after the same snapshot, and shares nothing with w.
func (w *Walk) Clone() Walk {
	if w.last == nil {
		return Walk{}
	}
	c := Walk{last: new(Snapshot), before: new(Snapshot)}
	c.last.CopyFrom(w.last)
	return c
}

// Step takes the next snapshot, and keeps a copy. It returns the snapshot at which the interval begins, nil for the
// first. The result is valid until the next Step.
func (w *Walk) Step(cur *Snapshot) *Snapshot {
	if w.last == nil {
		w.last, w.before = new(Snapshot), new(Snapshot)
		w.last.CopyFrom(cur)
		return nil
	}
	w.last, w.before = w.before, w.last
	w.last.CopyFrom(cur)
	w.last.InheritCounters(w.before)
	if w.before.Job.Phase == JobPending { // its bytes are in no interval, see jobIO
		last, own := &w.last.Job, &cur.Job
		last.IOReadBytes, last.IOWriteBytes = own.IOReadBytes, own.IOWriteBytes
		last.ProcReadBytes, last.ProcWriteBytes = own.ProcReadBytes, own.ProcWriteBytes
	}
	return w.before
}
