package ftdc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// transient is a process of the job, or one on a GPU, in a file. Every name that appears or
// disappears costs a schema. A file therefore has only those processes that a report may
// show, each from the first reading that shows it to the last. Between these its metrics
// keep the values that were read last, and <name>.read says what was read now: bit 0 that
// the process was, bit n its n-th figure.
type transient struct {
	span
	prefix string            // of its metrics
	flags  string            // the metric that says what was read
	names  []metricName      // of its figures
	held   []rt.Opt[float64] // what was read last of each figure
	read   uint64
}

// readMetric is the last word of the metric that says what was read of a guest.
const readMetric = "read"

// span is from the first reading to the last, by Seq; 0 where there is none.
type span struct{ first, last int64 }

func (s span) with(seq int64) span {
	if s.first == 0 {
		s.first = seq
	}
	s.last = seq
	return s
}

func newTransient(kind string, n noun, s span) *transient {
	prefix := kind + "." + n.name()
	return &transient{
		span: s, prefix: prefix, flags: prefix + "." + readMetric,
		names: metricNames(prefix, n.figures), held: make([]rt.Opt[float64], len(n.figures)),
	}
}

// take keeps what a reading has of it.
func (t *transient) take(figures []field) {
	t.read = 1
	for i, f := range figures {
		if v, ok := f.figure(); ok {
			t.held[i].Set(v)
			t.read |= 2 << i
		}
	}
}

const (
	processesByUse   = 32   // processes of most CPU time that a file has, and as many of most memory
	processesPerKill = 3    // those largest in memory before an OOM kill
	processesOnGPUs  = 256  // processes on GPUs
	maxMet           = 4096 // processes that are remembered before it is known which
)

type procID struct{ pid, start uint64 }

// procKey is a process by what it is called: it may change its command.
type procKey struct {
	procID
	task       rt.Opt[uint64]
	step, comm string
}

func procKeyOf(p *rt.ProcessReading) procKey {
	return procKey{procID{p.PID, p.Start}, p.Task, p.Step, p.Comm}
}

type gpuProcKey struct {
	uuid string
	pid  uint64
}

// procUse is the most that was seen of a process.
type procUse struct{ ticks, rss uint64 }

// processSurvey is what a first pass over a run finds, before it is known which of its
// processes a file has.
type processSurvey struct {
	use    map[procID]procUse
	seen   map[procKey]span
	onGPUs map[gpuProcKey]span
	killed map[procID]bool // that were largest before an OOM kill
	before []rt.ProcessReading
	kills  uint64
}

func newProcessSurvey() *processSurvey {
	return &processSurvey{
		use: map[procID]procUse{}, seen: map[procKey]span{}, onGPUs: map[gpuProcKey]span{}, killed: map[procID]bool{},
	}
}

func (b *processSurvey) add(s *rt.Snapshot) {
	for i := range s.Procs {
		p := &s.Procs[i]
		key := procKeyOf(p)
		u := b.use[key.procID]
		user, ok1 := p.UserTicks.Get()
		system, ok2 := p.SystemTicks.Get()
		if ok1 && ok2 {
			u.ticks = max(u.ticks, user+system)
		}
		u.rss = max(u.rss, p.RSS.Or(0))
		b.use[key.procID], b.seen[key] = u, b.seen[key].with(s.Seq)
	}
	for i := range s.GPUProcesses {
		key := gpuProcKey{s.GPUProcesses[i].UUID, s.GPUProcesses[i].PID}
		if known := b.onGPUs[key]; known.first != 0 || len(b.onGPUs) < processesOnGPUs {
			b.onGPUs[key] = known.with(s.Seq)
		}
	}
	if kills, ok := s.Job.EventsOOMKill.Get(); ok {
		if kills > b.kills {
			b.keepLargest(b.before)
			b.keepLargest(s.Procs)
		}
		b.kills = kills
	}
	b.before = append(b.before[:0], s.Procs...)
	if len(b.seen) > maxMet {
		b.forget(maxMet / 4)
	}
}

// keepLargest remembers those of a reading that held most memory.
func (b *processSurvey) keepLargest(procs []rt.ProcessReading) {
	sorted := slices.SortedFunc(slices.Values(procs), func(p, q rt.ProcessReading) int {
		return cmp.Or(-cmp.Compare(p.RSS.Or(0), q.RSS.Or(0)), cmp.Compare(p.PID, q.PID))
	})
	for _, p := range sorted[:min(processesPerKill, len(sorted))] {
		b.killed[procID{p.PID, p.Start}] = true
	}
}

// most are the processes that used most, n by CPU time and n by memory, in the
// order of a report, and those that were killed.
func (b *processSurvey) most(n int) map[procID]bool {
	out := maps.Clone(b.killed)
	ids := slices.Collect(maps.Keys(b.use))
	for _, of := range []func(procUse) uint64{func(u procUse) uint64 { return u.ticks }, func(u procUse) uint64 { return u.rss }} {
		slices.SortFunc(ids, func(p, q procID) int {
			return cmp.Or(-cmp.Compare(of(b.use[p]), of(b.use[q])), cmp.Compare(p.pid, q.pid), cmp.Compare(p.start, q.start))
		})
		for _, id := range ids[:min(n, len(ids))] {
			out[id] = true
		}
	}
	return out
}

// forget drops those that used little.
func (b *processSurvey) forget(keep int) {
	kept := b.most(keep)
	maps.DeleteFunc(b.use, func(id procID, _ procUse) bool { return !kept[id] })
	maps.DeleteFunc(b.seen, func(key procKey, _ span) bool { return !kept[key.procID] })
}

// transients are those that a file has, in the order they came.
type transients struct {
	list   []*transient
	procs  map[procKey]*transient
	onGPUs map[gpuProcKey]*transient
}

func (b *processSurvey) selected() transients {
	out := transients{procs: map[procKey]*transient{}, onGPUs: map[gpuProcKey]*transient{}}
	kept := b.most(processesByUse)
	for key, s := range b.seen {
		if kept[key.procID] {
			p := rt.ProcessReading{PID: key.pid, Start: key.start, Task: key.task, Step: key.step, Comm: key.comm}
			out.procs[key] = newTransient(processKind, nounOf(&p), s)
			out.list = append(out.list, out.procs[key])
		}
	}
	for key, s := range b.onGPUs {
		out.onGPUs[key] = newTransient(gpuProcessKind, nounOf(&rt.GPUProcessReading{UUID: key.uuid, PID: key.pid}), s)
		out.list = append(out.list, out.onGPUs[key])
	}
	slices.SortFunc(out.list, func(p, q *transient) int {
		return cmp.Or(cmp.Compare(p.first, q.first), strings.Compare(p.prefix, q.prefix))
	})
	return out
}

// take keeps what a snapshot has of them, and yields those that its datum has.
func (g *transients) take(s *rt.Snapshot, yield func(*transient)) {
	for i := range s.Procs {
		if of := g.procs[procKeyOf(&s.Procs[i])]; of != nil {
			of.take(nounOf(&s.Procs[i]).figures)
		}
	}
	for i := range s.GPUProcesses {
		if of := g.onGPUs[gpuProcKey{s.GPUProcesses[i].UUID, s.GPUProcesses[i].PID}]; of != nil {
			of.take(nounOf(&s.GPUProcesses[i]).figures)
		}
	}
	for _, of := range g.list {
		if of.first <= s.Seq && s.Seq <= of.last {
			yield(of)
			of.read = 0
		}
	}
}
