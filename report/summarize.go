// Package report describes a spooled run: user and command, the use of the allocation, the distance to its limits,
// and the completeness of the record. Summarize returns a Summary, which is the JSON document; WriteText shows it on
// one screen.
//
// A figure that was not read is null in JSON and "-" in text, and the reason follows.
package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// Summarize reads all snapshots of a run, in order, and summarizes them. It reads them once
// and retains none. If they have no lists (rt.StepReading, ...), the parts of the summary that
// need lists are missing. It returns the first error of the snapshots.
func Summarize(run rt.Run, events []rt.Event, snapshots iter.Seq2[*rt.Snapshot, error]) (*Summary, error) {
	r := reading{
		run: run, noSteps: withoutSteps(events), steps: stepTallies{}, processes: processTallies{}, gpus: gpuTallies{}, energy: energyTallies{}, context: newNodeTally(),
	}
	if len(run.Command) > 0 {
		r.tree.startAtZero() // the tree began with the tracker
	}
	for s, err := range snapshots {
		if err != nil {
			return nil, fmt.Errorf("report: read the snapshots of job %s on %s: %w", run.Label(), run.Node, err)
		}
		r.add(s)
	}
	return r.summary(events), nil
}

type reading struct {
	run             rt.Run
	job, tree, node usage
	container       usage // of the container of a process tree
	recv, sent      total
	taken           readings
	walk            rt.Walk
	seen            struct{ pending, present, tree bool }
	onlineCPUs      rt.Opt[uint64]
	memTotal        rt.Opt[uint64]
	jobs, trees     []point
	treeMost        []rt.Opt[uint64] // of trees: their memory or the most that it can be; bytes
	nodes           []point
	steps           stepTallies
	noSteps         []seqRange
	stepsRead       rt.Opt[int64] // Boot of the last reading with steps
	processes       processTallies
	gpus            gpuTallies
	energy          energyTallies
	shared          energyRecord
	context         nodeTally
	oom             oomTally
}

// readings are the readings that were taken.
type readings struct {
	count       int
	first, last instant
	reason      rt.Reason // of the last one
}

type instant struct{ wall, boot int64 }

func (r *reading) add(s *rt.Snapshot) {
	prev := r.walk.Step(s)
	secs := 0.0 // of the interval
	if prev == nil {
		r.taken.first = instant{s.Wall, s.Boot}
	} else {
		secs = float64(s.Boot-prev.Boot) / 1e9
		r.addPoint(prev, s)
	}
	r.taken.count++
	r.taken.last, r.taken.reason = instant{s.Wall, s.Boot}, s.Reason
	switch s.Job.Phase {
	case rt.JobPending:
		r.seen.pending = true
	case rt.JobPresent:
		r.seen.present = true
	}
	r.seen.tree = r.seen.tree || s.Tree.CPUUserTicks.Valid() || s.Tree.RSS.Valid()
	if s.Job.Phase != rt.JobNone {
		r.job.addJob(&s.Job)
		r.oom.add(prev, s)
	} else {
		r.container.addJob(&s.Job)
	}
	r.tree.addTree(&s.Tree, &s.Node)
	r.node.addNode(&s.Node)
	r.recv.add(s.Node.NetRxBytes)
	r.sent.add(s.Node.NetTxBytes)
	r.onlineCPUs = cmp.Or(s.Node.CPUs, r.onlineCPUs)
	r.memTotal = cmp.Or(s.Node.MemTotal, r.memTotal)
	r.steps.add(r.stepsRead, s)
	if !slices.ContainsFunc(r.noSteps, func(of seqRange) bool { return of.first <= s.Seq && s.Seq < of.end }) {
		r.stepsRead.Set(s.Boot)
	}
	r.processes.add(s)
	r.gpus.add(s, secs)
	r.energy.add(s, secs)
	r.shared.add(prev, s)
	r.context.add(s, secs)
}

func (r *reading) addPoint(prev, s *rt.Snapshot) {
	p := point{from: float64(prev.Boot-r.taken.first.boot) / 1e9, to: float64(s.Boot-r.taken.first.boot) / 1e9}
	if p.to <= p.from {
		return
	}
	node := rt.DeriveScalars(prev, s, rt.ScopeNode)
	p.cores, p.memory = node.CPUUsage, s.Node.MemInUse()
	r.nodes = append(r.nodes, p)
	used := rt.DeriveProcess(prev, s)
	if s.Job.Phase != rt.JobNone {
		p.cores, p.memory = used.CPUUsage, s.Job.MemCurrent
		r.jobs = append(r.jobs, p)
	} else {
		p.cores, p.memory = used.CPUUsage, used.Memory
		most, _ := s.Tree.Memory(&s.Node)
		r.treeMost = append(r.treeMost, most)
		r.trees = append(r.trees, p)
	}
}

func (r *reading) scope() Scope {
	onlyPending := r.seen.pending && !r.seen.tree
	switch {
	case r.seen.present || onlyPending:
		return ScopeJob
	case r.seen.tree || r.run.PID.Valid():
		return ScopeTree
	}
	return ScopeNode
}

func (r *reading) summary(events []rt.Event) *Summary {
	s := &Summary{Label: r.run.Label(), Run: r.run, Scope: r.scope(), Sensors: map[string]SensorIs{}}
	s.ElapsedSecs, s.SuspendedSecs = r.elapsed(), suspendedOf(events, &r.job.suspended)
	if v, ok := s.ElapsedSecs.Get(); ok {
		s.ElapsedSecs.Set(max(0, v-s.SuspendedSecs.Or(0)))
	}
	used, points := &r.node, r.nodes
	switch s.Scope {
	case ScopeJob:
		used, points = &r.job, r.jobs
	case ScopeTree:
		used, points = &r.tree, r.trees
		if !used.memory.Valid() {
			for i := range points {
				points[i].memory = r.treeMost[i]
			}
		}
	}
	s.Series = resample(points)
	s.CPU = r.cpu(s, used, points)
	s.Memory = r.memory(s, used)
	s.IO = used.io()
	if s.Scope == ScopeTree && !s.IO.ReadBytes.Valid() {
		s.IO = r.job.io()
	}
	s.Network = Network{RecvBytes: r.recv.value(), SentBytes: r.sent.value(), Scope: ScopeNode}
	s.Processes = Processes{Max: atLeastOne(used.processes, used.cpu.value()), MaxThreads: used.threads, Top: r.processes.top()}
	s.Pressure, s.Faults = r.pressure(used), Faults{used.faults.value(), used.major.value()}
	missed := missedEndsOf(events)
	missed.isUnder = r.taken.reason != rt.ReasonLast && r.run.State != rt.StateRunning
	s.Steps, s.OOM, s.GPUs = r.steps.list(&missed), r.oom.timed(events), r.gpus.list(s.Scope, r.run.JobID.Valid())
	s.Node, s.Energy = r.nodeContext(), r.energy.list(float64(r.taken.last.boot-r.taken.first.boot)/1e9)
	r.jobEnergy(s)
	s.Record.Readings = r.taken.count
	if r.taken.count > 0 {
		s.Record.First, s.Record.Last = time.Unix(0, r.taken.first.wall).UTC(), time.Unix(0, r.taken.last.wall).UTC()
		r.completeness(s)
	}
	s.ledger(events)
	s.SlurmState = s.slurmState()
	s.compareSacct()
	r.reasons(s)
	s.threads, s.allBusySecs = r.processes.threadUses(), allBusySecs(points, s.CPU.Cores.Or(0))
	return s
}

// completeness sets whether the record is complete. What a run used before its first reading and after its last one is
// not in its figures. The figures of a node are of the time between.
func (r *reading) completeness(s *Summary) {
	isCommand := s.Scope == ScopeTree && len(r.run.Command) > 0
	began := s.Scope == ScopeNode || r.seen.pending || isCommand
	ended := r.taken.reason == rt.ReasonLast
	s.Record.Complete = began && ended
	if s.Scope == ScopeNode {
		return
	}
	if !ended && s.Run.State != rt.StateRunning {
		s.MarkAtLeast()
	}
	if !began && s.Scope == ScopeJob {
		s.markFromLater()
	}
}

// MarkAtLeast marks the figures of a run that was not read to its end.
func (s *Summary) MarkAtLeast() {
	s.markFromLater()
	if s.Memory.PeakBytes.Valid() {
		s.Memory.PeakMark = s.Memory.PeakMark.and(AtLeast)
	}
}

// markFromLater marks the totals of a run that was not read from its beginning. The kernel's peak includes the
// beginning.
func (s *Summary) markFromLater() {
	if s.CPU.UsedSecs.Valid() {
		s.CPU.UsedMark = AtLeast
	}
	if s.IO.ReadBytes.Valid() || s.IO.WriteBytes.Valid() {
		s.IO.Mark = AtLeast
	}
}

// atLeastOne returns the highest number of processes of the readings. It is 1 if CPU time shows a process that no
// reading has.
func atLeastOne(highest, cpu rt.Opt[uint64]) rt.Opt[uint64] {
	if highest == rt.Some[uint64](0) && cpu.Or(0) > 0 {
		return rt.Some[uint64](1)
	}
	return highest
}

// io returns what the io controller counted, or the processes if it is off.
func (u *usage) io() IO {
	io := IO{ReadBytes: u.read.value(), WriteBytes: u.write.value()}
	if !io.ReadBytes.Valid() && !io.WriteBytes.Valid() && u.procRead.spans {
		io = IO{ReadBytes: u.procRead.value(), WriteBytes: u.procWrite.value(), Of: "processes", Mark: AtLeast}
	}
	return io
}

// elapsed returns the time of the run, or between its readings if its end is not known.
func (r *reading) elapsed() rt.Opt[float64] {
	switch {
	case !r.run.End.IsZero() && !r.run.Start.IsZero() && r.run.End.After(r.run.Start):
		return rt.Some(r.run.End.Sub(r.run.Start).Seconds())
	case r.taken.count > 1:
		return rt.Some(float64(r.taken.last.boot-r.taken.first.boot) / 1e9)
	}
	return rt.None[float64]()
}

func (r *reading) cpu(s *Summary, used *usage, points []point) CPU {
	unit := 1e-6 // microseconds
	if s.Scope != ScopeJob {
		unit = 1.0 / rt.TicksPerSecond
	}
	c := CPU{
		CPUPart:  CPUPart{Used: Used{UsedSecs: used.cpu.scaled(unit)}, Cores: r.run.AllocCPUs, CoresOf: "allocation"},
		UserSecs: used.user.scaled(unit), SystemSecs: used.system.scaled(unit), ThrottledSecs: used.throttled.scaled(unit), StepdSecs: used.stepd.scaled(unit),
	}
	if !c.Cores.Valid() || s.Scope == ScopeNode {
		c.Cores, c.CoresOf = r.onlineCPUs, "node"
	}
	for _, p := range points {
		raise(&c.PeakCores, p.cores)
	}
	secs := s.ElapsedSecs.Or(0)
	if n, ok := c.Cores.Get(); ok && secs > 0 {
		c.AllocatedSecs.Set(float64(n) * secs)
	}
	if v, ok := c.UsedSecs.Get(); ok && secs > 0 {
		c.MeanCores.Set(v / secs)
		if all := c.AllocatedSecs.Or(0); all > 0 {
			c.UsedPct.Set(v / all * 100)
		}
	}
	return c
}

func (r *reading) memory(s *Summary, used *usage) Memory {
	m := Memory{
		MemoryPart: MemoryPart{PeakMemory: PeakMemory{PeakBytes: cmp.Or(used.peak, used.intervalPeak)}, OOMKills: used.oomKills.value()},
		PeakOf:     "kernel", AnonymousBytes: used.anon, SharedBytes: used.shared, FileBytes: used.file,
	}
	// A kill after the last reading is not in its count. A job of several nodes was killed on one.
	isUnread := s.Run.Outcome == rt.OutcomeOOM && m.OOMKills == rt.Some[uint64](0)
	if isUnread && s.Run.NumNodes.Or(1) == 1 {
		m.OOMKills.Clear()
	}
	if !m.PeakBytes.Valid() {
		m.PeakMemory, m.PeakOf = highestOf(used.memory), "readings"
	}
	if used.mostMemory.Or(0) > m.PeakBytes.Or(0) {
		m.PSSBytes, m.PeakMemory = used.memory, PeakMemory{used.mostMemory, AtMost}
	}
	limit, ok := used.limit.Get()
	switch {
	case s.Scope == ScopeTree && r.container.limit.Valid():
		m.addContainer(&r.container)
	case ok && limit != rt.Unlimited:
		m.LimitBytes, m.LimitOf = used.limit, "cgroup"
	case s.Scope != ScopeNode && r.run.AllocMem.Or(0) > 0: // 0 is --mem=0: all of the node
		m.LimitBytes, m.LimitOf = r.run.AllocMem, "allocation"
	default:
		m.LimitBytes, m.LimitOf = r.memTotal, "node"
	}
	if peak, ok := m.PeakBytes.Get(); ok && m.LimitBytes.Or(0) > 0 {
		m.PeakPct.Set(float64(peak) / float64(m.LimitBytes.Or(0)) * 100)
	}
	return m
}

// addContainer adds the figures of the container of a process tree. Its peak includes all processes of the container,
// and their page cache.
func (m *Memory) addContainer(c *usage) {
	m.OOMKills, m.LimitBytes, m.LimitOf = c.oomKills.value(), c.limit, "container"
	if c.peak.Valid() {
		m.TreePeak, m.PeakMemory, m.PeakOf = m.PeakMemory, PeakMemory{PeakBytes: c.peak}, "container"
	}
}

func (r *reading) pressure(u *usage) Pressure {
	p := Pressure{
		CPUSomeSecs: u.stalls[0].scaled(1e-6), CPUFullSecs: u.stalls[1].scaled(1e-6),
		MemorySomeSecs: u.stalls[2].scaled(1e-6), MemoryFullSecs: u.stalls[3].scaled(1e-6),
		IOSomeSecs: u.stalls[4].scaled(1e-6), IOFullSecs: u.stalls[5].scaled(1e-6),
	}
	secs := float64(r.taken.last.boot-r.taken.first.boot) / 1e9
	for _, f := range [...][2]*rt.Opt[float64]{{&p.CPUSomeSecs, &p.CPUPct}, {&p.MemorySomeSecs, &p.MemoryPct}, {&p.IOSomeSecs, &p.IOPct}} {
		if v, ok := f[0].Get(); ok && secs > 0 {
			f[1].Set(min(v/secs, 1) * 100)
		}
	}
	return p
}
