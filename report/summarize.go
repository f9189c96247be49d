package report

import (
	"fmt"
	"iter"
	"time"

	"github.com/resource-tracker/rt"
)

// Summarize reads all snapshots of a run, in order, and sums them up. It reads
// them once and keeps none. An error of the snapshots ends it.
func Summarize(run rt.Run, events []rt.Event, snapshots iter.Seq2[*rt.Snapshot, error]) (*Summary, error) {
	r := reading{run: run}
	if len(run.Command) > 0 {
		r.tree.startAtZero() // the tree began with us
	}
	for s, err := range snapshots {
		if err != nil {
			return nil, fmt.Errorf("report: read the snapshots of job %s on %s: %w", run.Label(), run.Node, err)
		}
		r.add(s)
	}
	return r.summary(events), nil
}

// reading is what is gathered while the snapshots go by.
type reading struct {
	run             rt.Run
	job, tree, node usage
	recv, sent      total
	readings        int
	first           instant
	last            instant
	prev            rt.Snapshot // scalars of the snapshot before, with inherited counters
	seen            struct{ pending, present, tree bool }
	lastReason      rt.Reason
	onlineCPUs      rt.Opt[uint64]
	memTotal        rt.Opt[uint64]
	jobs, trees     []point
	nodes           []point
}

type instant struct{ wall, boot int64 }

func (r *reading) add(s *rt.Snapshot) {
	now := instant{s.Wall, s.Boot}
	if r.readings == 0 {
		r.first = now
	} else {
		r.addPoint(s)
	}
	r.readings++
	r.last, r.lastReason = now, s.Reason
	switch s.Job.Phase {
	case rt.JobPending:
		r.seen.pending = true
	case rt.JobPresent:
		r.seen.present = true
	}
	r.seen.tree = r.seen.tree || s.Tree.CPUUserTicks.Valid() || s.Tree.RSS.Valid()
	if s.Job.Phase != rt.JobNone {
		r.job.addJob(&s.Job)
	}
	r.tree.addTree(&s.Tree)
	r.node.addNode(&s.Node)
	r.recv.add(s.Node.NetRxBytes)
	r.sent.add(s.Node.NetTxBytes)
	if s.Node.CPUs.Valid() {
		r.onlineCPUs = s.Node.CPUs
	}
	if s.Node.MemTotal.Valid() {
		r.memTotal = s.Node.MemTotal
	}

	older := r.prev
	r.prev = *s
	r.prev.CPUs, r.prev.Nets, r.prev.Disks, r.prev.Mounts, r.prev.GPUs = nil, nil, nil, nil, nil
	if r.readings > 1 {
		r.prev.InheritCounters(&older)
	}
}

func (r *reading) addPoint(s *rt.Snapshot) {
	p := point{from: float64(r.prev.Boot-r.first.boot) / 1e9, to: float64(s.Boot-r.first.boot) / 1e9}
	if p.to <= p.from {
		return
	}
	node := rt.DeriveScalars(&r.prev, s, rt.ScopeNode)
	p.cores, p.memory = node.CPUUsage, s.Node.MemUsed()
	r.nodes = append(r.nodes, p)
	used := rt.DeriveProcess(&r.prev, s)
	if s.Job.Phase != rt.JobNone {
		p.cores, p.memory = used.CPUUsage, s.Job.MemCurrent
		r.jobs = append(r.jobs, p)
	} else {
		p.cores, p.memory = used.CPUUsage, used.Memory
		r.trees = append(r.trees, p)
	}
}

func (r *reading) scope() Scope {
	switch {
	case r.seen.pending || r.seen.present:
		return ScopeJob
	case r.seen.tree || r.run.PID.Valid():
		return ScopeTree
	}
	return ScopeNode
}

func (r *reading) summary(events []rt.Event) *Summary {
	s := &Summary{Label: r.run.Label(), Run: r.run, Scope: r.scope(), Sensors: map[string]SensorIs{}}
	s.ElapsedSecs = r.elapsed()
	used, points := &r.node, r.nodes
	switch s.Scope {
	case ScopeJob:
		used, points = &r.job, r.jobs
	case ScopeTree:
		used, points = &r.tree, r.trees
	}
	s.Series = resample(points)
	s.CPU = r.cpu(s, used, points)
	s.Memory = r.memory(s, used)
	s.IO = IO{ReadBytes: used.read.value(), WriteBytes: used.write.value()}
	s.Network = Network{RecvBytes: r.recv.value(), SentBytes: r.sent.value(), Scope: ScopeNode}
	s.Processes = Processes{Max: used.processes.Opt}
	s.Record = Record{Readings: r.readings}
	if r.readings > 0 {
		s.Record.First, s.Record.Last = time.Unix(0, r.first.wall).UTC(), time.Unix(0, r.last.wall).UTC()
		began := s.Scope == ScopeNode || r.seen.pending || s.Scope == ScopeTree && len(r.run.Command) > 0
		s.Record.Complete = began && r.lastReason == rt.ReasonLast
	}
	s.ledger(events)
	r.reasons(s)
	return s
}

// elapsed is the time of the run; of its readings where its end is not known.
func (r *reading) elapsed() rt.Opt[float64] {
	switch {
	case !r.run.End.IsZero() && !r.run.Start.IsZero() && r.run.End.After(r.run.Start):
		return rt.Some(r.run.End.Sub(r.run.Start).Seconds())
	case r.readings > 0:
		return rt.Some(float64(r.last.boot-r.first.boot) / 1e9)
	}
	return rt.None[float64]()
}

// split makes user and system time add up to what was used: cgroup v1 samples
// them by the tick, which counts too much or too little, but it counts the whole
// exactly. The kernel itself does the same for v2.
func (c *CPU) split() {
	used, ok1 := c.UsedSecs.Get()
	user, ok2 := c.UserSecs.Get()
	system, ok3 := c.SystemSecs.Get()
	if sum := user + system; ok1 && ok2 && ok3 && sum > 0 {
		c.UserSecs.Set(used * user / sum)
		c.SystemSecs.Set(used * system / sum)
	}
}

func (r *reading) cpu(s *Summary, used *usage, points []point) CPU {
	unit := 1e-6 // microseconds
	if s.Scope != ScopeJob {
		unit = 1.0 / rt.TicksPerSecond
	}
	c := CPU{
		UsedSecs: used.cpu.scaled(unit), UserSecs: used.user.scaled(unit), SystemSecs: used.system.scaled(unit),
		ThrottledSecs: used.throttled.scaled(unit), Cores: r.run.AllocCPUs, CoresOf: "allocation",
	}
	c.split()
	if !c.Cores.Valid() || s.Scope == ScopeNode {
		c.Cores, c.CoresOf = r.onlineCPUs, "node"
	}
	for _, p := range points {
		if v, ok := p.cores.Get(); ok && v >= c.PeakCores.Or(0) {
			c.PeakCores.Set(v)
		}
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
		PeakBytes: used.peak.Opt, PeakOf: "kernel",
		AnonymousBytes: used.anon.Opt, SharedBytes: used.shared.Opt, FileBytes: used.file.Opt, OOMKills: used.oomKills.value(),
	}
	if !m.PeakBytes.Valid() {
		m.PeakBytes, m.PeakOf = used.memory.Opt, "readings"
	}
	limit, ok := used.limit.Get()
	switch {
	case ok && limit != rt.Unlimited:
		m.LimitBytes, m.LimitOf = used.limit, "cgroup"
	case s.Scope != ScopeNode && r.run.AllocMem.Valid():
		m.LimitBytes, m.LimitOf = r.run.AllocMem, "allocation"
	default:
		m.LimitBytes, m.LimitOf = r.memTotal, "node"
	}
	if peak, ok := m.PeakBytes.Get(); ok && m.LimitBytes.Or(0) > 0 {
		m.PeakPct.Set(float64(peak) / float64(m.LimitBytes.Or(0)) * 100)
	}
	return m
}

func (s *Summary) ledger(events []rt.Event) {
	for _, e := range events {
		switch {
		case e.Kind == "gap":
			s.Record.Gaps++
		case e.Kind == "sensor" && e.Status == "ok":
			delete(s.Sensors, e.Name)
		case e.Kind == "sensor":
			s.Sensors[e.Name] = SensorIs{Status: e.Status, Detail: e.Detail}
		}
	}
}
